"""The specification as slow Python: one row at a time, every row kept, nothing of the core used.

``windowed`` gives the panes and late rows of aligned windows, by the clock of ``oracles.clock``.
Every other kind of window has an oracle of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tests.oracles.clock import Judged, Step, Table, by_time, heard
from tidemark.core.time.segment import FOREVER_MS, Segment


class LateRow(NamedTuple):
    """A row that counts nowhere, and the last window it could have counted in."""

    row: Judged
    start: int
    end: int
    late_by_ms: int


def late_of(row: Judged, end_ms: int, lateness_ms: int = 0) -> LateRow:
    """Return a late row of a window from its time until ``end_ms``."""
    return LateRow(row, row.at_ms, end_ms, row.w_ms - end_ms - lateness_ms)


class Pane(NamedTuple):
    """A pane with the values of the aggregates that the properties use."""

    key: str | None
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


NOTHING: dict[str, Any] = dict.fromkeys(("n", "total", "low", "high", "first", "last"))
"""The values of a pane that is withdrawn."""


@dataclass
class Run:
    """What a log gave: panes per step, late rows, and how many rows were new."""

    steps: list[list[Pane]] = field(default_factory=list)
    late: list[LateRow] = field(default_factory=list)
    rows: int = 0
    clocks: list[int] = field(default_factory=list)

    def note(self, step: Step, panes: list[Any]) -> None:
        """Add what one step gave, besides late rows; panes of the oracle's own kind."""
        self.steps.append(panes)
        self.rows += len(step.rows)
        self.clocks.append(step.clock)

    @property
    def panes(self) -> list[Pane]:
        """Return all panes in order."""
        return [pane for step in self.steps for pane in step]

    def lasts(self) -> dict[tuple[str | None, int], Pane]:
        """Return the last pane of every key and start, without ``final``.

        Whether a pane could know that it was the last depends on how far the segment went.
        """
        return {(p.key, p.start): p._replace(final=False) for p in self.panes}

    def early(self) -> list[Pane]:
        """Return the early panes in order, without ``final``."""
        return [p._replace(final=False) for p in self.panes if p.timing == "early"]

    def on_time(self) -> set[Pane]:
        """Return the on-time panes, without ``final``."""
        return {p._replace(final=False) for p in self.panes if p.timing == "on_time"}


class Aligned(NamedTuple):
    """Hopping windows and how they are published."""

    size_ms: int
    slide_ms: int
    offset_ms: int
    allowed_lateness_ms: int
    on_final: bool

    def start(self, end_ms: int) -> int:
        return end_ms - self.size_ms

    def ends(self, at_ms: int) -> list[int]:
        before = at_ms - self.size_ms
        first = before + 1 + (self.offset_ms - before - 1) % self.slide_ms
        return [start + self.size_ms for start in range(first, at_ms + 1, self.slide_ms)]


class Spec(Protocol):
    """Windows that are the same for all keys, and how they are published."""

    @property
    def allowed_lateness_ms(self) -> int: ...
    @property
    def on_final(self) -> bool: ...

    def ends(self, at_ms: int) -> list[int]: ...
    def start(self, end_ms: int) -> int: ...


class _Windows:
    """Every accepted row of every key and window."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rows: dict[tuple[str | None, int], list[Judged]] = {}

    def fold(self, row: Judged, run: Run) -> list[tuple[str | None, int]]:
        lateness_ms = self.spec.allowed_lateness_ms
        ends = self.spec.ends(row.at_ms)
        counting = [end for end in ends if end + lateness_ms > row.w_ms]
        for end in counting:
            self.rows.setdefault((row.key, end), []).append(row)
        if not counting:
            late_by_ms = row.w_ms - ends[-1] - lateness_ms
            run.late.append(LateRow(row, self.spec.start(ends[-1]), ends[-1], late_by_ms))
        return [(row.key, end) for end in counting]

    def publish(
        self, touched: set[tuple[str | None, int]], before: int, clock: int
    ) -> Iterator[Pane]:
        lateness_ms = self.spec.allowed_lateness_ms
        for (key, end), rows in self.rows.items():
            on_time = [row for row in rows if row.w_ms < end]
            every = self._pane(key, end, rows, "late", clock)
            if self.spec.on_final:
                if before < end + lateness_ms <= clock:
                    timing = "on_time" if len(on_time) == len(rows) else "late"
                    yield every._replace(timing=timing)
            elif before < end <= clock:
                if on_time:
                    yield self._pane(key, end, on_time, "on_time", clock)
                if len(on_time) < len(rows):
                    yield every
            elif end <= before and (key, end) in touched:
                yield every

    def _pane(self, key: str | None, end: int, rows: list[Judged], timing: str, clock: int) -> Pane:
        final = end + self.spec.allowed_lateness_ms <= clock
        start = self.spec.start(end)
        return Pane(key, start, end, len(rows), timing, final, False, len(rows), *values_of(rows))


def values_of(rows: list[Judged]) -> tuple[int | None, ...]:
    told = sorted(
        (row for row in rows if row.value is not None),
        key=by_time,
    )
    values = [row.value for row in told if row.value is not None]
    if not values:
        return (None,) * 5
    return (sum(values), min(values), max(values), values[0], values[-1])


def windowed(
    segments: Sequence[Segment], topics: Sequence[str], spec: Spec, clock: type[Table] = Table
) -> Run:
    """Run a log through aligned windows, with the end of input as the last step."""
    run, table, windows = Run(), clock(topics), _Windows(spec)
    for step in heard(segments, table):
        touched = {place for row in step.rows for place in windows.fold(row, run)}
        run.note(step, in_order(windows.publish(touched, step.before, step.clock)))
    run.steps.append(in_order(windows.publish(set(), table.clock, FOREVER_MS)))
    return run


def in_order(panes: Iterable[Pane]) -> list[Pane]:
    """Sort one step's panes as docs/semantics.md, "Order in a topic", says; null keys first."""
    return sorted(panes, key=lambda p: (p.end, p.key is not None, p.key or "", p.start, p.revision))
