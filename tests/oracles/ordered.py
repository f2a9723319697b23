"""Rows in order of event time as slow Python: distinct rows, and values of the rows before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.oracles.aligned import LateRow, late_of
from tests.oracles.clock import Judged, Table, by_time, heard
from tidemark.core.time.segment import FOREVER_MS, Segment


class OrderedRow(NamedTuple):
    """A published row; ``made``: the values that a scan adds."""

    key: str | None
    value: int | None
    source: str
    offset: int
    sub_row: int
    at_ms: int
    made: tuple[Any, ...] = ()


Rule = Callable[[Judged], OrderedRow | None]


@dataclass
class OrderedRun:
    """What a log gives: the rows of each step, with the end of input last, and the late rows."""

    steps: list[list[OrderedRow]] = field(default_factory=list)
    late: list[LateRow] = field(default_factory=list)


def distinct(within_ms: int, *, by_value: bool) -> Rule:
    """Keep a row unless one of its id was kept less than ``within_ms`` before."""
    kept: dict[Any, int] = {}

    def rule(row: Judged) -> OrderedRow | None:
        each = (row.key, row.value) if by_value else row.key
        if each in kept and row.at_ms < kept[each] + within_ms:
            return None
        kept[each] = row.at_ms
        return _row(row)

    return rule


def scan(max_silence_ms: int | None) -> Rule:
    """Add the value before, the difference to it, and the sum of the values so far."""
    last: dict[str | None, tuple[int, int | None, int]] = {}

    def rule(row: Judged) -> OrderedRow | None:
        before, total = None, 0
        if row.key in last:
            at_ms, value, so_far = last[row.key]
            if max_silence_ms is None or row.at_ms < at_ms + max_silence_ms:
                before, total = value, so_far
        total += row.value or 0
        last[row.key] = row.at_ms, row.value, total
        known = row.value is not None and before is not None
        difference = row.value - before if known else None  # type: ignore[operator]
        return _row(row, (before, difference, None if row.value is None else total))

    return rule


def run_in_order(segments: Sequence[Segment], topics: Sequence[str], rule: Rule) -> OrderedRun:
    """Give a rule the rows in order of event time, each once the clock is later."""
    run, table, waiting = OrderedRun(), Table(topics), list[Judged]()

    def released(clock_ms: int) -> list[OrderedRow]:
        due = [row for row in waiting if row.at_ms < clock_ms]
        waiting[:] = [row for row in waiting if row.at_ms >= clock_ms]
        due.sort(key=by_time)
        return [made for row in due if (made := rule(row)) is not None]

    for step in heard(segments, table):
        for row in step.rows:
            if row.at_ms < row.w_ms:
                run.late.append(late_of(row, row.at_ms + 1))
            else:
                waiting.append(row)
        run.steps.append(released(step.clock))
    run.steps.append(released(FOREVER_MS))
    return run


def _row(row: Judged, made: tuple[Any, ...] = ()) -> OrderedRow:
    return OrderedRow(row.key, row.value, row.source, row.offset, row.sub_row, row.at_ms, made)
