"""Rows joined to a broadcast table as slow Python, from docs/semantics.md, "Broadcast tables".

Every version and every row is kept for ever, and each row is compared with all versions.
``answered`` gives the results of a log step by step, ``answered_at_the_end`` those that stand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracles.aligned import LateRow
from tests.oracles.clock import Judged
from tests.oracles.join import LEFT, RIGHT, Joined, JoinRun, Rejected
from tests.oracles.versions import Version, in_order, late_of, results_of, version_of
from tidemark.core.time.segment import Segment

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


@dataclass
class _Join:
    """What has come so far."""

    spec: Spec
    run: BroadcastRun = field(default_factory=BroadcastRun)
    versions: list[Version] = field(default_factory=list)
    waiting: list[Judged] = field(default_factory=list)

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
            self.run.late_left.append(late_of(row, row.at_ms + 1, self.spec.lateness_ms))
        elif self.spec.wait == "arrival":
            return self.answer(row)
        else:
            self.waiting.append(row)
        return []

    def take_version(self, row: Judged) -> None:
        found = version_of(row, self.spec.keep_ms, self.spec.lateness_ms)
        if isinstance(found, LateRow):
            self.run.late_right.append(found)
        else:
            self.versions.append(found)

    def due(self, clock_ms: int) -> list[Answer]:
        ready = [each for each in self.waiting if clock_ms > each.at_ms + self.spec.lateness_ms]
        self.waiting = [each for each in self.waiting if each not in ready]
        return [result for each in sorted(ready, key=in_order) for result in self.answer(each)]


def answered(segments: Sequence[Segment], spec: Spec) -> BroadcastRun:
    """Return what a join makes of a log."""
    join = _Join(spec)
    join.run.steps = results_of(join, spec.left, spec.right, segments)
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
    run = join.run
    late = ((LEFT, run.late_left), (RIGHT, run.late_right))
    rejected = [Rejected(side, each.row[:3], "late") for side, some in late for each in some]
    many = f"more than {spec.max_pairs} pairs"
    return JoinRun([results], [], rejected + [Rejected(LEFT, row, many) for row in run.refused])
