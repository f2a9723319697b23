"""Windows in order of arrival as slow Python: each window is a list of its rows.

See docs/semantics.md, "Windows in order of arrival".
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.oracles.aligned import Run, late_of, values_of
from tests.oracles.clock import Judged, Table, by_time, heard
from tidemark.core.time.segment import FOREVER_MS, Segment

Key = str | None


class NumberedPane(NamedTuple):
    """A pane with the values of the aggregates that the properties use."""

    key: Key
    window: int
    start: int
    end: int
    revision: int
    timing: str
    final: bool
    retracted: bool
    n: int
    total: int | None
    low: int | None
    high: int | None
    first: int | None
    last: int | None


class Arriving(NamedTuple):
    """Windows in order of arrival and how they are published."""

    kind: str  # count | delta | punctuation | global | steps
    size: int = 1
    slide: int = 1
    threshold: int = 0
    early: Callable[[list[Judged]], bool] = lambda _rows: False
    processing_ms: int = 0
    discarding: bool = False


@dataclass
class _Open:
    """The open windows of one key by number, oldest first."""

    windows: dict[int, list[Judged]] = field(default_factory=dict)
    rows: int = 0
    next: int = 0
    highest: int | None = None
    shown: dict[int, int] = field(default_factory=dict)
    recorded: int = 0


def marked(row: Judged) -> bool:
    """The punctuation that the properties use."""
    return row.value is not None and row.value % 3 == 0


class _Windows:
    def __init__(self, spec: Arriving) -> None:
        self.spec = spec
        self.keys: dict[Key, _Open] = {}

    def record(self, now_ms: int) -> Iterator[NumberedPane]:
        """Return what was recorded in earlier intervals of processing time and is in no pane."""
        step = self.spec.processing_ms
        for key in sorted(self.keys, key=lambda key: (key is not None, key or "")):
            mine = self.keys[key]
            if not step or mine.recorded // step >= now_ms // step:
                continue
            # Each pane of a discarding global window ends it.
            ends = self.spec.discarding and self.spec.kind == "global"
            for number, rows in mine.windows.items():
                if mine.shown.get(number, 0) < len(rows):
                    yield self._pane(key, number, rows, closed=ends)
            if ends:
                mine.windows.clear()

    def add(self, row: Judged, now_ms: int) -> list[NumberedPane]:
        """Add a row to the windows of its key; return the panes that it brings."""
        mine = self.keys.setdefault(row.key, _Open())
        panes = []
        if self.spec.kind == "delta" and self._differs(mine, row):
            for number, rows in mine.windows.items():
                panes.append(self._pane(row.key, number, rows, closed=True))
            mine.windows.clear()
        begins = not mine.windows
        if self.spec.kind == "count":
            begins = mine.rows % self.spec.slide == 0
        if begins:
            mine.windows[mine.next] = []
            mine.next += 1
        mine.rows += 1
        mine.recorded = now_ms
        for number, rows in list(mine.windows.items()):
            rows.append(row)
            closed = self._closes(mine, rows)
            if closed:
                del mine.windows[number]
            if closed or self.spec.early(rows):
                panes.append(self._pane(row.key, number, rows, closed=closed))
        mine.highest = max(row.at_ms, row.at_ms if mine.highest is None else mine.highest)
        return panes

    def _differs(self, mine: _Open, row: Judged) -> bool:
        told = [r.value for rows in mine.windows.values() for r in rows if r.value is not None]
        if row.value is None or not told:
            return False
        return abs(row.value - told[0]) > self.spec.threshold

    def _closes(self, mine: _Open, rows: list[Judged]) -> bool:
        if self.spec.kind == "steps":
            before = mine.highest
            return (
                before is not None and rows[-1].at_ms // self.spec.size > before // self.spec.size
            )
        if self.spec.kind == "count":
            return len(rows) == self.spec.size
        return self.spec.kind == "punctuation" and marked(rows[-1])

    def _pane(self, key: Key, number: int, rows: list[Judged], *, closed: bool) -> NumberedPane:
        """Show a window: its bounds and number of rows, and the values of all or of new ones."""
        shown = self.keys[key].shown
        new = rows[shown.get(number, 0) :] if self.spec.discarding else rows
        shown[number] = len(rows)
        times = [row.at_ms for row in rows]
        timing = "on_time" if closed else "early"
        return NumberedPane(
            key, number, min(times), max(times) + 1, len(rows), timing, closed, False,
            len(new), *values_of(new),
        )  # fmt: skip


def arriving(segments: Sequence[Segment], topics: Sequence[str], spec: Arriving) -> Run:
    """Run a log through windows in order of arrival; the end of input publishes nothing."""
    run, table, windows = Run(), Table(topics), _Windows(spec)
    for step in heard(segments, table):
        panes = list(windows.record(step.now))
        for row in step.rows:
            panes += windows.add(row, step.now)
        run.note(step, panes)
    run.steps.append([])
    return run


def in_event_time(segments: Sequence[Segment], topics: Sequence[str], spec: Arriving) -> Run:
    """Run a log through count windows in order of event time; the end of input passes all rows."""
    run, table, windows, held = Run(), Table(topics), _Windows(spec), list[Judged]()

    def released(clock_ms: int) -> list[NumberedPane]:
        due = sorted(
            (row for row in held if row.at_ms < clock_ms),
            key=by_time,
        )
        held[:] = [row for row in held if row.at_ms >= clock_ms]
        return [pane for row in due for pane in windows.add(row, 0)]

    for step in heard(segments, table):
        for row in step.rows:
            if row.at_ms < row.w_ms:
                run.late.append(late_of(row, row.at_ms + 1))
            else:
                held.append(row)
        run.note(step, released(step.clock))
    last: list[Any] = released(FOREVER_MS)
    run.steps.append(last)
    return run
