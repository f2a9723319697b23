"""Rows joined to a broadcast table as slow Python, from docs/semantics.md, "Broadcast tables".

Every version and every row is kept for ever, and each row is compared with all versions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracles.aligned import LateRow
from tests.oracles.clock import Judged, Table, heard
from tidemark.core.time.segment import FOREVER_MS, Segment

Values = tuple[str | None, int | None]


@dataclass(frozen=True)
class Spec:
    """A join of the rows of topics with the versions of topics; one may be in both.

    ``deleted``: whether a value makes a version a tombstone.  ``on``: whether the key and the value
    of a row and those of a version pair; null is not true.  ``condition``: the name of it.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    how: str
    keep_ms: int
    lateness_ms: int
    wait: str
    deleted: Callable[[int | None], bool]
    condition: str
    on: Callable[[Values, Values], bool | None]
    max_pairs: int


class Answer(NamedTuple):
    """A result; ``places``: of the raw row, and of the version, which may be missing."""

    places: tuple[tuple[str, int, int], tuple[str, int, int] | None]
    values: Values
    version: Values | None
    at_ms: int


@dataclass
class BroadcastRun:
    """What a log gives: the results of each step, the end of input last, and late rows.

    ``refused``: the rows with too many pairs.
    """

    steps: list[list[Answer]] = field(default_factory=list)
    late_left: list[LateRow] = field(default_factory=list)
    late_right: list[LateRow] = field(default_factory=list)
    refused: list[tuple[str, int, int]] = field(default_factory=list)


class _Version(NamedTuple):
    at_ms: int
    source: str
    offset: int
    sub_row: int
    from_ms: int
    key: str | None
    value: int | None


@dataclass
class _Join:
    """What has come so far."""

    spec: Spec
    run: BroadcastRun = field(default_factory=BroadcastRun)
    versions: list[_Version] = field(default_factory=list)
    waiting: list[Judged] = field(default_factory=list)

    def met(self, row: Judged) -> list[_Version]:
        """Return the versions that a row meets, in their order."""
        best: dict[str | None, _Version] = {}
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
        place = (row.source, row.offset, row.sub_row)
        if len(found) > self.spec.max_pairs:
            self.run.refused.append(place)
            return []
        alone = Answer((place, None), (row.key, row.value), None, row.at_ms)
        if self.spec.how in ("semi", "anti"):
            return [alone] if bool(found) == (self.spec.how == "semi") else []
        if not found:
            return [alone] if self.spec.how == "left" else []
        return [
            alone._replace(places=(place, each[1:4]), version=(each.key, each.value))
            for each in found
        ]

    def take_row(self, row: Judged) -> list[Answer]:
        if row.at_ms + self.spec.lateness_ms < row.w_ms:
            self.run.late_left.append(_late(row, row.at_ms + 1, self.spec.lateness_ms))
        elif self.spec.wait == "arrival":
            return self.answer(row)
        else:
            self.waiting.append(row)
        return []

    def take_version(self, row: Judged) -> None:
        if row.at_ms < row.w_ms - self.spec.keep_ms:
            self.run.late_right.append(_late(row, row.at_ms + self.spec.keep_ms + 1))
        else:
            from_ms = max(row.at_ms, row.w_ms - self.spec.lateness_ms)
            place = (row.at_ms, row.source, row.offset, row.sub_row)
            self.versions.append(_Version(*place, from_ms, row.key, row.value))

    def due(self, clock_ms: int) -> list[Answer]:
        ready = [each for each in self.waiting if clock_ms > each.at_ms + self.spec.lateness_ms]
        self.waiting = [each for each in self.waiting if each not in ready]
        return [result for each in sorted(ready, key=_in_order) for result in self.answer(each)]


def answered(segments: Sequence[Segment], spec: Spec) -> BroadcastRun:
    """Return what a join makes of a log."""
    join, table = _Join(spec), Table(sorted({*spec.left, *spec.right}))
    for step in heard(segments, table):
        made: list[Answer] = []
        for row in step.rows:
            topic = row.source.rpartition("/")[0]
            if topic in spec.left:
                made += join.take_row(row)
            if topic in spec.right:
                join.take_version(row)
        join.run.steps.append(made + join.due(step.clock))
    join.run.steps.append(join.due(FOREVER_MS))
    return join.run


def _in_order(row: Judged) -> tuple[int, str, int, int]:
    return row.at_ms, row.source, row.offset, row.sub_row


def _late(row: Judged, end_ms: int, lateness_ms: int = 0) -> LateRow:
    return LateRow(row, row.at_ms, end_ms, row.w_ms - end_ms - lateness_ms)
