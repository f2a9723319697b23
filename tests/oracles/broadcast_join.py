"""Rows joined to a broadcast table as slow Python, from docs/semantics.md, "Broadcast tables".

Every version and every row is kept for ever, and each row is compared with all versions.
``answered`` gives the results of a log step by step, ``answered_at_the_end`` those that stand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracles.clock import Judged, RowId, by_time, row_id
from tests.oracles.join import LEFT, Joined, JoinRun, Rejected
from tests.oracles.versions import TableJoin, TableRun, TableSpec, Version
from tidemark.core.time.segment import Segment

Values = tuple[str | None, int | None]


@dataclass(frozen=True)
class Spec(TableSpec):
    """A join in which a row meets the versions of all keys.

    ``on``: whether the key and the value of a row and those of a version pair; null is not true.
    ``condition``: the name of it.
    """

    condition: str
    on: Callable[[Values, Values], bool | None]
    max_pairs: int


class Answer(NamedTuple):
    """A result; ``places``: of the raw row, and of the version, which may be missing."""

    places: tuple[RowId, RowId | None]
    values: Values
    version: Values | None
    at_ms: int


@dataclass
class BroadcastRun(TableRun[Answer]):
    """What a log gives; ``refused``: the rows with too many pairs."""

    refused: list[RowId] = field(default_factory=list)


class _Join(TableJoin[Answer]):
    spec: Spec
    run: BroadcastRun

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, BroadcastRun())
        self.waiting: list[Judged] = []

    def met(self, row: Judged) -> list[Version]:
        """Return the versions that a row meets, in their order."""
        best: dict[str | None, Version] = {}
        for version in self.versions:
            if version.from_ms <= row.at_ms:
                known = best.get(version.key)
                best[version.key] = version if known is None else max(known, version)
        return sorted(
            each
            for each in best.values()
            if each.at_ms >= row.at_ms - self.spec.keep_ms
            and not self.spec.deleted(each.value)
            and self.spec.on((row.key, row.value), (each.key, each.value))
        )

    def answer(self, row: Judged) -> list[Answer]:
        found = self.met(row)
        place = row_id(row)
        if len(found) > self.spec.max_pairs:
            self.run.refused.append(place)
            return []
        alone = Answer((place, None), (row.key, row.value), None, row.at_ms)
        if self.spec.how in ("semi", "anti"):
            return [alone] if bool(found) == (self.spec.how == "semi") else []
        if not found:
            return [alone] if self.spec.how == "left" else []
        return [
            alone._replace(places=(place, each.id), version=(each.key, each.value))
            for each in found
        ]

    def take_timely(self, row: Judged) -> list[Answer]:
        if self.spec.wait == "arrival":
            return self.answer(row)
        self.waiting.append(row)
        return []

    def due(self, clock_ms: int) -> list[Answer]:
        ready = [each for each in self.waiting if clock_ms > each.at_ms + self.spec.lateness_ms]
        self.waiting = [each for each in self.waiting if each not in ready]
        return [result for each in sorted(ready, key=by_time) for result in self.answer(each)]


def answered(segments: Sequence[Segment], spec: Spec) -> BroadcastRun:
    """Return what a join makes of a log."""
    join = _Join(spec)
    join.read(segments)
    return join.run


def answered_at_the_end(spec: Spec, rows: Sequence[Judged], versions: Sequence[Judged]) -> JoinRun:
    """Return the results of rows with their W, which are final, and the rejected rows.

    It knows neither clock nor segments.
    """
    join = _Join(spec)
    for row in rows:
        join.take_row(row)
    for version in versions:
        join.take_version(version)
    answers = [each for row in join.waiting for each in join.answer(row)]
    results = [Joined(*each.places, each.at_ms) for each in answers]
    many = f"more than {spec.max_pairs} pairs"
    refused = [Rejected(LEFT, row, many) for row in join.run.refused]
    return JoinRun([results], [], join.run.rejected + refused)
