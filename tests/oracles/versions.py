"""Rows and versions of a log as slow Python, from docs/semantics.md, "Tables".

It is what joins with tables share, whether a row meets the versions of its key or of all keys.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from tests.oracles.aligned import LateRow
from tests.oracles.clock import Judged, Table, heard
from tidemark.core.time.segment import FOREVER_MS, Segment

Result = TypeVar("Result")


class Version(NamedTuple):
    """A version of a key; of those that count from a time on, the highest is the answer."""

    at_ms: int
    source: str
    offset: int
    sub_row: int
    from_ms: int
    key: str | None
    value: int | None


class TakesLogs(Protocol[Result]):
    """A join: ``due`` gives the results of the rows that wait until the clock."""

    def take_row(self, row: Judged) -> list[Result]: ...

    def take_version(self, row: Judged) -> None: ...

    def due(self, clock_ms: int) -> list[Result]: ...


def results_of(
    join: TakesLogs[Result],
    left: Sequence[str],
    right: Sequence[str],
    segments: Sequence[Segment],
) -> list[list[Result]]:
    """Return what a join makes of each step of a log, the end of input last.

    ``left``, ``right``: the topics of rows and of versions; one may be in both.
    """
    made: list[list[Result]] = []
    for step in heard(segments, Table(sorted({*left, *right}))):
        results: list[Result] = []
        for row in step.rows:
            topic = row.source.rpartition("/")[0]
            if topic in left:
                results += join.take_row(row)
            if topic in right:
                join.take_version(row)
        made.append(results + join.due(step.clock))
    return [*made, join.due(FOREVER_MS)]


def version_of(row: Judged, keep_ms: int, lateness_ms: int) -> Version | LateRow:
    """Return the version that a row is, or the late row that it is."""
    if row.at_ms < row.w_ms - keep_ms:
        return late_of(row, row.at_ms + keep_ms + 1)
    from_ms = max(row.at_ms, row.w_ms - lateness_ms)
    return Version(row.at_ms, row.source, row.offset, row.sub_row, from_ms, row.key, row.value)


def late_of(row: Judged, end_ms: int, lateness_ms: int = 0) -> LateRow:
    """Return a late row of a window from its time until ``end_ms``."""
    return LateRow(row, row.at_ms, end_ms, row.w_ms - end_ms - lateness_ms)


def in_order(row: Judged) -> tuple[int, str, int, int]:
    """Return what rows sort by: event time, then place."""
    return row.at_ms, row.source, row.offset, row.sub_row
