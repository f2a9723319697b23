"""Rows joined to a versioned table as slow Python, from docs/semantics.md, "Tables".

Every version and every row is kept for ever, and every answer is looked up among all versions.
``answered`` gives the results of a log step by step, ``answered_at_the_end`` those that stand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracles.aligned import LateRow
from tests.oracles.clock import Judged
from tests.oracles.join import LEFT, RIGHT, Joined, JoinRun, Rejected, row_id
from tests.oracles.versions import Version, in_order, late_of, results_of, version_of
from tidemark.core.time.segment import Segment


@dataclass(frozen=True)
class Spec:
    """A join of the rows of topics with the versions of topics; one may be in both.

    ``deleted``: whether a value makes a version a tombstone.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    how: str
    keep_ms: int
    lateness_ms: int
    wait: str
    on_close: bool
    deleted: Callable[[int | None], bool]

    @property
    def corrects(self) -> bool:
        return self.wait == "event_time" and self.on_close and self.lateness_ms > 0


class Answer(NamedTuple):
    """A result; ``place``: of the raw row that it answers."""

    place: tuple[str, int, int]
    key: str | None
    value: int | None
    value_right: int | None
    at_ms: int
    revision: int = 1
    retracted: bool = False


@dataclass
class TableRun:
    """What a log gives: the results of each step, the end of input last, and late rows."""

    steps: list[list[Answer]] = field(default_factory=list)
    late_left: list[LateRow] = field(default_factory=list)
    late_right: list[LateRow] = field(default_factory=list)


@dataclass
class _Row:
    row: Judged
    answer: Version | None = None
    revision: int = 0


@dataclass
class _Join:
    """What has come so far."""

    spec: Spec
    run: TableRun = field(default_factory=TableRun)
    versions: list[Version] = field(default_factory=list)
    waiting: list[_Row] = field(default_factory=list)
    done: list[_Row] = field(default_factory=list)

    def best(self, row: Judged) -> Version | None:
        counting = [v for v in self.versions if v.key == row.key and v.from_ms <= row.at_ms]
        found = max(counting, default=None)
        if found is None or found.at_ms < row.at_ms - self.spec.keep_ms:
            return None
        return None if self.spec.deleted(found.value) else found

    def answer(self, each: _Row) -> list[Answer]:
        each.answer = self.best(each.row)
        if each.answer is None and self.spec.how == "inner":
            return []
        each.revision = 1
        return [_result(each)]

    def answer_again(self, each: _Row) -> list[Answer]:
        found = self.best(each.row)
        if found == each.answer:
            return []
        each.answer, each.revision = found, each.revision + 1
        return [_result(each, retracted=found is None and self.spec.how == "inner")]

    def take_row(self, row: Judged) -> list[Answer]:
        if row.at_ms + self.spec.lateness_ms < row.w_ms:
            self.run.late_left.append(late_of(row, row.at_ms + 1, self.spec.lateness_ms))
        elif self.spec.wait == "arrival":
            return self.answer(_Row(row))
        else:
            self.waiting.append(_Row(row))
        return []

    def take_version(self, row: Judged) -> None:
        found = version_of(row, self.spec.keep_ms, self.spec.lateness_ms)
        if isinstance(found, LateRow):
            self.run.late_right.append(found)
        else:
            self.versions.append(found)

    def due(self, clock_ms: int) -> list[Answer]:
        made: list[Answer] = []
        if self.spec.corrects:
            self.done.sort(key=_in_order)
            made += [result for each in self.done for result in self.answer_again(each)]
        after_ms = 0 if self.spec.corrects else self.spec.lateness_ms
        ready = [each for each in self.waiting if clock_ms > each.row.at_ms + after_ms]
        self.waiting = [each for each in self.waiting if clock_ms <= each.row.at_ms + after_ms]
        made += [result for each in sorted(ready, key=_in_order) for result in self.answer(each)]
        self.done += ready
        return made


def answered(segments: Sequence[Segment], spec: Spec) -> TableRun:
    """Return what a join makes of a log."""
    join = _Join(spec)
    join.run.steps = results_of(join, spec.left, spec.right, segments)
    return join.run


def answered_at_the_end(spec: Spec, rows: Sequence[Judged], versions: Sequence[Judged]) -> JoinRun:
    """Return the final answers of rows with their W, and the late rows.

    Corrections lead to the same answers, so it knows neither clock nor segments.
    """
    join = _Join(spec)
    for row in rows:
        join.take_row(row)
    for version in versions:
        join.take_version(version)
    results = []
    for row in (each.row for each in join.waiting):
        found = join.best(row)
        if found is not None:
            version_id = (found.source, found.offset, found.sub_row)
            results.append(Joined(row_id(row), version_id, row.at_ms))
        elif spec.how == "left":
            results.append(Joined(row_id(row), None, row.at_ms))
    late = ((LEFT, join.run.late_left), (RIGHT, join.run.late_right))
    rejected = [Rejected(side, row_id(each.row), "late") for side, some in late for each in some]
    return JoinRun([results], [], rejected)


def _in_order(each: _Row) -> tuple[int, str, int, int]:
    return in_order(each.row)


def _result(each: _Row, *, retracted: bool = False) -> Answer:
    row, found = each.row, each.answer
    place = (row.source, row.offset, row.sub_row)
    value = None if found is None else found.value
    return Answer(place, row.key, row.value, value, row.at_ms, each.revision, retracted)
