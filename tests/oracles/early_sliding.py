"""Early and discarding panes of sliding windows as slow Python: a row at a time, all rows kept."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.oracles.aligned import LateRow, Pane, Run, in_order, values_of
from tests.oracles.clock import Judged, Table, heard
from tidemark.core.time.segment import FOREVER_MS, Segment

Place = tuple[str | None, int]


class Spec(NamedTuple):
    """Sliding windows and their trigger: ``every`` says of what, ``closes`` whether on_close."""

    reach_ms: int
    allowed_lateness_ms: int
    closes: bool
    every: str | None  # "rows" | "event_time" | "processing_time"; None: no early panes
    interval: int
    discarding: bool

    @property
    def size_ms(self) -> int:
        return self.reach_ms + 1

    @property
    def wait_ms(self) -> int:
        return 0 if self.closes else self.allowed_lateness_ms


class EarlySlides:
    """Every accepted row of every key, and what was shown of each window."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rows: dict[str | None, list[Judged]] = {}
        self.shown: dict[Place, list[Judged]] = {}
        self.changed_ms: dict[Place, int] = {}
        self.panes: list[Pane] = []

    def record(self, now: int, clock: int) -> None:
        """Show what was recorded in an interval of processing time that is over."""
        if self.spec.every != "processing_time":
            return
        for place, changed_ms in self.changed_ms.items():
            over = changed_ms // self.spec.interval < now // self.spec.interval
            rows = self._inside(place, self.spec.wait_ms)
            new = len(self.shown.get(place, ())) < len(rows)
            if over and place[1] + self.spec.wait_ms > clock and new:
                self._show(place, rows, "late" if self._corrected(place, rows) else "early")

    def fold(self, row: Judged, now: int, run: Run) -> bool:
        last_end = row.at_ms + self.spec.size_ms
        late_by = row.w_ms - last_end - self.spec.allowed_lateness_ms
        if late_by >= 0:
            run.late.append(LateRow(row, row.at_ms, last_end, late_by))
            return False
        before = list(self.rows.setdefault(row.key, []))
        self.rows[row.key].append(row)
        for end in range(row.at_ms + 1, last_end + 2) if self.spec.every else ():
            self._met((row.key, end), row, before, now)
        return True

    def _met(self, place: Place, row: Judged, before: list[Judged], now: int) -> None:
        """Fire a window in which a row counts, or that it made."""
        end, wait = place[1], self.spec.wait_ms
        rows = self._inside(place, wait)
        made = any(self._makes(other, end) and other.w_ms < end + wait for other in before)
        makes = self._makes(row, end) and row.w_ms < end + wait
        if not (made or makes) or not rows or (rows[-1] is not row and made):
            return
        if rows[-1] is not row and not makes:
            return
        self.changed_ms[place] = now
        if self._fires(place, rows, row):
            self._show(place, rows, "early" if row.w_ms < end else "late")

    def _fires(self, place: Place, rows: list[Judged], row: Judged) -> bool:
        interval = self.spec.interval
        if self.spec.every == "rows":
            return len(rows) - len(self.shown.get(place, ())) >= interval
        if self.spec.every == "event_time" and rows[-1] is row and rows[:-1]:
            return row.at_ms // interval > max(other.at_ms for other in rows[:-1]) // interval
        return False

    def _inside(self, place: Place, wait: int) -> list[Judged]:
        key, end = place
        start = end - self.spec.size_ms
        rows = self.rows.get(key, ())
        return [row for row in rows if start <= row.at_ms < end and row.w_ms < end + wait]

    def _makes(self, row: Judged, end: int) -> bool:
        return row.at_ms + 1 in (end, end - self.spec.size_ms)

    def _corrected(self, place: Place, rows: list[Judged]) -> bool:
        """Tell whether a row of a window was behind, or all that made it were."""
        key, end = place
        in_time = any(self._makes(r, end) and r.w_ms < end for r in self.rows[key])
        return not in_time or any(row.w_ms >= end for row in rows)

    def _show(self, place: Place, rows: list[Judged], timing: str) -> None:
        shown = self.shown.get(place, []) if self.spec.discarding else []
        held = [row for row in rows if not any(row is other for other in shown)]
        key, end = place
        self.panes.append(
            Pane(
                key, end - self.spec.size_ms, end, len(rows), timing, False, False, len(held),
                *values_of(held),
            )
        )  # fmt: skip
        self.shown[place] = rows

    def publish(self, new: list[Judged], before: int, clock: int) -> list[Pane]:
        lateness = self.spec.allowed_lateness_ms
        for key, rows in self.rows.items():
            ends = {row.at_ms + 1 + size for row in rows for size in (0, self.spec.size_ms)}
            for end in ends:
                place = key, end
                if not any(self._makes(r, end) and r.w_ms < end + lateness for r in rows):
                    continue
                if self.spec.closes:
                    self._closing(place, [row for row in new if row.key == key], before, clock)
                elif before < end + lateness <= clock:
                    self._finish(place)
        panes, self.panes = self.panes, []
        return in_order(
            p._replace(final=p.end + lateness <= clock and p.timing != "early") for p in panes
        )

    def _finish(self, place: Place) -> None:
        rows = self._inside(place, self.spec.allowed_lateness_ms)
        if len(self.shown.get(place, ())) < len(rows):
            self._show(place, rows, "late" if self._corrected(place, rows) else "on_time")

    def _closing(self, place: Place, new: list[Judged], before: int, clock: int) -> None:
        key, end = place
        every = self._inside(place, self.spec.allowed_lateness_ms)
        on_time = [row for row in every if row.w_ms < end]
        in_time = any(self._makes(r, end) and r.w_ms < end for r in self.rows[key])
        corrected = not in_time or len(on_time) < len(every)
        if before < end <= clock:
            if in_time and on_time:
                self._show(place, on_time, "on_time")
            if corrected and every:
                self._show(place, every, "late")
        elif end <= before and every:
            counts = any(row in every for row in new)
            made = not in_time and any(r.at_ms + 1 + self.spec.size_ms == end for r in new)
            nothing = self.spec.discarding and len(every) == len(self.shown.get(place, ()))
            if (counts or made) and not nothing:
                self._show(place, every, "late")


def early_sliding(segments: Sequence[Segment], topics: Sequence[str], spec: Spec) -> Run:
    """Run a log through sliding windows, with the end of input as the last step."""
    run, table, state = Run(), Table(topics), EarlySlides(spec)
    for step in heard(segments, table):
        state.record(step.now, step.before)
        new = [row for row in step.rows if state.fold(row, step.now, run)]
        run.note(step, state.publish(new, step.before, step.clock))
    run.steps.append(state.publish([], table.clock, FOREVER_MS))
    return run
