"""Chains of windows as slow Python: the final results of each stage are the rows of the next."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tidemark.core.time.segment import NEVER_MS


class Row(NamedTuple):
    """A row of a stage; ``w_ms`` is its W, NEVER_MS for a result of a stage, which is not late."""

    at_ms: int
    key: str | None
    value: int
    w_ms: int = NEVER_MS


class Windows(NamedTuple):
    """``kind``: hopping, day, sliding, session, or same, which has the sizes of the stage before.

    ``size_ms``: also the reach or the gap.
    """

    kind: str
    size_ms: int
    slide_ms: int = 0


class Stage(NamedTuple):
    """Windows over keyed rows.

    ``key``: of the rows that the stage hands on: "same", "value" or "all".  ``least``: the number
    of rows that a window needs to be handed on.  ``after`` and ``trigger``: when it hands on, and
    publishes, panes; the oracle, which knows the end alone, ignores both.
    """

    windows: Windows
    lateness_ms: int = 0
    least: int = 1
    key: str = "same"
    after: str = "final"
    trigger: str = "close"


class Result(NamedTuple):
    """The final result of a window."""

    key: str | None
    start: int
    end: int
    n: int
    total: int


def results(stages: Sequence[Stage], rows: Iterable[Row]) -> set[Result]:
    """Return the final results of the last stage."""
    found: set[Result] = set()
    for stage in stages:
        of_key: dict[str | None, list[Row]] = {}
        for row in rows:
            of_key.setdefault(row.key, []).append(row)
        found = {
            Result(key, start, end, len(inside), sum(row.value for row in inside))
            for key, mine in of_key.items()
            for start, end, inside in _windows(stage, mine)
        }
        rows = [
            Row(each.end - 1, _next_key(stage, each), each.total)
            for each in found
            if each.n >= stage.least
        ]
    return found


def late(stage: Stage, rows: Iterable[Row]) -> list[Row]:
    """Return the rows that are late for all windows of a stage, with the W that decided it."""
    if stage.windows.kind == "session":
        return [row for row in rows if row.at_ms + stage.lateness_ms < row.w_ms]
    return [
        row
        for row in rows
        if all(
            end + stage.lateness_ms <= row.w_ms
            for _, end in _bounds(stage.windows, row, stage.lateness_ms)
        )
    ]


def _next_key(stage: Stage, result: Result) -> str | None:
    if stage.key == "all":
        return None
    return result.key if stage.key == "same" else str(result.total % 3)


def _windows(stage: Stage, rows: list[Row]) -> Iterator[tuple[int, int, list[Row]]]:
    windows = stage.windows
    if windows.kind == "session":
        yield from _sessions(
            windows.size_ms, [r for r in rows if r.at_ms + stage.lateness_ms >= r.w_ms]
        )
        return
    bounds = {each for row in rows for each in _bounds(windows, row, stage.lateness_ms)}
    for start, end in bounds:
        first = end - windows.slide_ms if windows.kind == "same" else start
        inside = [
            row for row in rows if first <= row.at_ms < end and end + stage.lateness_ms > row.w_ms
        ]
        if inside:
            yield start, end, inside


def _bounds(windows: Windows, row: Row, lateness_ms: int) -> Iterator[tuple[int, int]]:
    at = row.at_ms
    if windows.kind == "day":
        day = datetime.fromtimestamp(at // 1000, UTC).replace(hour=0, minute=0, second=0)
        ends = (day, day + timedelta(days=1))
        start, end = (int(each.timestamp()) * 1000 for each in ends)
        yield start, end
    elif windows.kind == "same":
        end = (at - windows.size_ms) // windows.slide_ms * windows.slide_ms + windows.size_ms
        yield end + windows.slide_ms - windows.size_ms, end + windows.slide_ms
    elif windows.kind == "hopping":
        start = at // windows.slide_ms * windows.slide_ms
        while start + windows.size_ms > at:
            yield start, start + windows.size_ms
            start -= windows.slide_ms
    else:
        reach = windows.size_ms
        if at + reach + 1 + lateness_ms > row.w_ms:
            if at + 1 + lateness_ms > row.w_ms:
                yield at - reach, at + 1
            yield at + 1, at + reach + 2


def _sessions(gap: int, rows: list[Row]) -> Iterator[tuple[int, int, list[Row]]]:
    inside: list[Row] = []
    for row in sorted(rows):
        if inside and row.at_ms >= inside[-1].at_ms + gap:
            yield inside[0].at_ms, inside[-1].at_ms + gap, inside
            inside = []
        inside.append(row)
    if inside:
        yield inside[0].at_ms, inside[-1].at_ms + gap, inside
