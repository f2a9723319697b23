"""Rows joined to a versioned table as slow Python, from docs/semantics.md, "Tables".

Every version and every row is kept for ever, and every answer is looked up among all versions.
``answered`` gives the results of a log step by step, ``answered_at_the_end`` those that stand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.oracles.clock import Judged, RowId, by_time, row_id
from tests.oracles.join import Joined, JoinRun
from tests.oracles.versions import TableJoin, TableRun, TableSpec, Version
from tidemark.core.time.segment import Segment


@dataclass(frozen=True)
class Spec(TableSpec):
    """A join in which a row meets the versions of its key."""

    on_close: bool

    @property
    def corrects(self) -> bool:
        return self.wait == "event_time" and self.on_close and self.lateness_ms > 0


class Answer(NamedTuple):
    """A result; ``place``: of the raw row that it answers."""

    place: RowId
    key: str | None
    value: int | None
    value_right: int | None
    at_ms: int
    revision: int = 1
    retracted: bool = False


@dataclass
class _Row:
    row: Judged
    answer: Version | None = None
    revision: int = 0


class _Join(TableJoin[Answer]):
    spec: Spec

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, TableRun())
        self.waiting: list[_Row] = []
        self.done: list[_Row] = []

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

    def take_timely(self, row: Judged) -> list[Answer]:
        if self.spec.wait == "arrival":
            return self.answer(_Row(row))
        self.waiting.append(_Row(row))
        return []

    def due(self, clock_ms: int) -> list[Answer]:
        made: list[Answer] = []
        if self.spec.corrects:
            self.done.sort(key=_by_time)
            made += [result for each in self.done for result in self.answer_again(each)]
        after_ms = 0 if self.spec.corrects else self.spec.lateness_ms
        ready = [each for each in self.waiting if clock_ms > each.row.at_ms + after_ms]
        self.waiting = [each for each in self.waiting if clock_ms <= each.row.at_ms + after_ms]
        made += [result for each in sorted(ready, key=_by_time) for result in self.answer(each)]
        self.done += ready
        return made


def answered(segments: Sequence[Segment], spec: Spec) -> TableRun[Answer]:
    """Return what a join makes of a log."""
    join = _Join(spec)
    join.read(segments)
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
            results.append(Joined(row_id(row), found.id, row.at_ms))
        elif spec.how == "left":
            results.append(Joined(row_id(row), None, row.at_ms))
    return JoinRun([results], [], join.run.rejected)


def _by_time(each: _Row) -> tuple[int, RowId]:
    return by_time(each.row)


def _result(each: _Row, *, retracted: bool = False) -> Answer:
    row, found = each.row, each.answer
    value = None if found is None else found.value
    return Answer(row_id(row), row.key, row.value, value, row.at_ms, each.revision, retracted)
