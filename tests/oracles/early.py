"""Early panes of hopping windows as slow Python: one row at a time, every row kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracles.aligned import LateRow, Pane, Run, in_order, values_of
from tests.oracles.clock import Judged, Table, heard
from tidemark.core.time.segment import FOREVER_MS, Segment

Place = tuple[str | None, int]


class Spec(NamedTuple):
    """Hopping windows and their trigger: ``every`` says of what, ``closes`` whether on_close."""

    size_ms: int
    slide_ms: int
    allowed_lateness_ms: int
    closes: bool
    every: str | None  # "rows" | "event_time" | "processing_time"; None: no early panes
    interval: int
    discarding: bool

    def ends(self, at_ms: int) -> list[int]:
        starts = range(at_ms - self.size_ms + 1, at_ms + 1)
        return [s + self.size_ms for s in starts if s % self.slide_ms == 0]


@dataclass
class Window:
    """The rows of one key and window; ``counted`` are those that early panes look at."""

    accepted: list[Judged] = field(default_factory=list)
    counted: list[Judged] = field(default_factory=list)
    shown: int = 0  # of ``counted``
    late_shown: int = 0  # of ``accepted`` that are behind
    changed_ms: int = 0  # processing time of the last that counted


class Windows:
    """All windows of all keys."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.windows: dict[Place, Window] = {}
        self.panes: list[Pane] = []

    def record(self, now: int, clock: int) -> None:
        """Show what was recorded in an interval of processing time that is over."""
        if self.spec.every != "processing_time":
            return
        wait = 0 if self.spec.closes else self.spec.allowed_lateness_ms
        for (key, end), window in self.windows.items():
            over = window.changed_ms // self.spec.interval < now // self.spec.interval
            if over and end + wait > clock and window.shown < len(window.counted):
                late = any(row.w_ms >= end for row in window.counted)
                self._early((key, end), "late" if late else "early")

    def fold(self, row: Judged, now: int, run: Run) -> list[Place]:
        lateness = self.spec.allowed_lateness_ms
        ends = self.spec.ends(row.at_ms)
        counting = [end for end in ends if end + lateness > row.w_ms]
        for end in counting:
            window = self.windows.setdefault((row.key, end), Window())
            window.accepted.append(row)
            if self.spec.every and (row.w_ms < end or not self.spec.closes):
                before = [other.at_ms for other in window.counted]
                window.counted.append(row)
                window.changed_ms = now
                if self._fires(window, before, row.at_ms):
                    self._early((row.key, end), "early" if row.w_ms < end else "late")
        if not counting:
            by = row.w_ms - ends[-1] - lateness
            run.late.append(LateRow(row, ends[-1] - self.spec.size_ms, ends[-1], by))
        return [(row.key, end) for end in counting]

    def _fires(self, window: Window, before: list[int], at: int) -> bool:
        interval = self.spec.interval
        if self.spec.every == "rows":
            return len(window.counted) % interval == 0
        if self.spec.every == "event_time":
            return bool(before) and at // interval > max(before) // interval
        return False

    def _early(self, place: Place, timing: str) -> None:
        window = self.windows[place]
        since = window.shown if self.spec.discarding else 0
        rows = window.counted[since:]
        self.panes.append(self._pane(place, len(window.counted), rows, timing))
        window.shown = len(window.counted)

    def _pane(self, place: Place, revision: int, rows: list[Judged], timing: str) -> Pane:
        key, end = place
        start = end - self.spec.size_ms
        return Pane(key, start, end, revision, timing, False, False, len(rows), *values_of(rows))

    def publish(self, touched: set[Place], before: int, clock: int) -> list[Pane]:
        for place, window in self.windows.items():
            if self.spec.closes:
                self._closing(place, window, place in touched, before, clock)
                continue
            due = before < place[1] + self.spec.allowed_lateness_ms <= clock
            if due and window.shown < len(window.counted):
                late = any(row.w_ms >= place[1] for row in window.counted)
                self._early(place, "late" if late else "on_time")
        panes, self.panes = self.panes, []
        lateness = self.spec.allowed_lateness_ms
        return in_order(
            p._replace(final=p.end + lateness <= clock and p.timing != "early") for p in panes
        )

    def _closing(
        self, place: Place, window: Window, touched: bool, before: int, clock: int
    ) -> None:
        end = place[1]
        on_time = [row for row in window.accepted if row.w_ms < end]
        behind = [row for row in window.accepted if row.w_ms >= end]
        if before < end <= clock and on_time:
            rows = on_time[window.shown :] if self.spec.discarding else on_time
            self.panes.append(self._pane(place, len(on_time), rows, "on_time"))
        if end <= clock and behind[window.late_shown :]:
            assert touched or before < end
            rows = behind[window.late_shown :] if self.spec.discarding else window.accepted
            self.panes.append(self._pane(place, len(window.accepted), rows, "late"))
            window.late_shown = len(behind)


def early(segments: Sequence[Segment], topics: Sequence[str], spec: Spec) -> Run:
    """Run a log through hopping windows, with the end of input as the last step."""
    run, table, windows = Run(), Table(topics), Windows(spec)
    for step in heard(segments, table):
        windows.record(step.now, step.before)
        touched = {place for row in step.rows for place in windows.fold(row, step.now, run)}
        run.note(step, windows.publish(touched, step.before, step.clock))
    run.steps.append(windows.publish(set(), table.clock, FOREVER_MS))
    return run
