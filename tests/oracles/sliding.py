"""Sliding windows as slow Python: one row at a time, every row kept for ever."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.oracles.aligned import LateRow, Pane, Run, in_order, values_of
from tests.oracles.clock import Judged, Table, heard
from tidemark.core.time.segment import FOREVER_MS, Segment


class Spec(NamedTuple):
    """Sliding windows and how they are published."""

    reach_ms: int
    allowed_lateness_ms: int
    on_final: bool


class Slides:
    """Every accepted row of every key."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rows: dict[str | None, list[Judged]] = {}

    def fold(self, row: Judged, run: Run) -> bool:
        last_end = row.at_ms + self.spec.reach_ms + 1
        late_by = row.w_ms - last_end - self.spec.allowed_lateness_ms
        if late_by >= 0:
            run.late.append(LateRow(row, row.at_ms, last_end, late_by))
            return False
        self.rows.setdefault(row.key, []).append(row)
        return True

    def publish(self, new: list[Judged], before: int, clock: int) -> Iterator[Pane]:
        for key, rows in self.rows.items():
            ends = {row.at_ms + 1 for row in rows}
            ends |= {row.at_ms + self.spec.reach_ms + 2 for row in rows}
            mine = [row for row in new if row.key == key]
            for end in ends:
                yield from self._window(key, end, rows, mine, before, clock)

    def _window(
        self,
        key: str | None,
        end: int,
        rows: list[Judged],
        new: list[Judged],
        before: int,
        clock: int,
    ) -> Iterator[Pane]:
        lateness = self.spec.allowed_lateness_ms
        inside = [row for row in rows if self._counts(row, end)]
        makers = [row for row in inside if row.at_ms + 1 == end]
        makers += [row for row in rows if self._precedes(row, end)]
        if not inside or not makers:
            return
        in_time = any(row.w_ms < end for row in makers)
        on_time = [row for row in inside if row.w_ms < end]
        corrected = not in_time or len(on_time) < len(inside)
        every = self._pane(key, end, inside, "late", clock)
        if self.spec.on_final:
            if before < end + lateness <= clock:
                yield every._replace(timing="late" if corrected else "on_time")
        elif before < end <= clock:
            if in_time and on_time:
                yield self._pane(key, end, on_time, "on_time", clock)
            if corrected:
                yield every
        elif end <= before and (
            any(self._counts(row, end) for row in new)
            or (not in_time and any(self._precedes(row, end) for row in new))
        ):
            yield every

    def _counts(self, row: Judged, end: int) -> bool:
        inside = end - self.spec.reach_ms - 1 <= row.at_ms < end
        return inside and row.w_ms < end + self.spec.allowed_lateness_ms

    def _precedes(self, row: Judged, end: int) -> bool:
        return row.at_ms == end - self.spec.reach_ms - 2

    def _pane(self, key: str | None, end: int, rows: list[Judged], timing: str, clock: int) -> Pane:
        start, size = end - self.spec.reach_ms - 1, len(rows)
        final = end + self.spec.allowed_lateness_ms <= clock
        return Pane(key, start, end, size, timing, final, False, size, *values_of(rows))


def sliding(segments: Sequence[Segment], topics: Sequence[str], spec: Spec) -> Run:
    """Run a log through sliding windows, with the end of input as the last step."""
    run, table, state = Run(), Table(topics), Slides(spec)
    for step in heard(segments, table):
        new = [row for row in step.rows if state.fold(row, run)]
        run.note(step, in_order(state.publish(new, step.before, step.clock)))
    run.steps.append(in_order(state.publish([], table.clock, FOREVER_MS)))
    return run
