"""Early and discarding panes of sessions as slow Python: one row at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.oracles.aligned import NOTHING, Pane, Run, in_order, values_of
from tests.oracles.clock import Judged, Table, heard
from tests.oracles.session import is_late, late_row
from tidemark.core.time.segment import FOREVER_MS, Segment


class Spec(NamedTuple):
    """A session window; ``every``: how many rows, or ms, between early panes; 0 for none."""

    gap_ms: int
    allowed_lateness_ms: int
    strict: bool
    closes: bool
    every: int
    discarding: bool
    by: str = "rows"  # "rows" | "event_time" | "processing_time"


@dataclass(eq=False)
class Burst:
    """One session; ``stands`` counts the rows in the pane that stands, ``shown`` all shown."""

    start: int
    end: int
    rows: list[Judged]
    late: bool
    stands: int = 0
    stands_end: int = 0
    early: bool = False  # that pane is
    changed_ms: int = 0  # processing time of the last row


class Sessions:
    """All sessions of all keys, and the panes of the segment under way."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.bursts: dict[str | None, list[Burst]] = {}
        self.panes: list[Pane] = []
        self.shown: set[Judged] = set()

    def record(self, now: int, clock: int) -> None:
        """Show what was recorded in an interval of processing time that is over."""
        spec = self.spec
        if spec.by != "processing_time" or not spec.every:
            return
        wait = 0 if spec.closes else spec.allowed_lateness_ms
        shown, self.panes = self.panes, []
        for key, own in self.bursts.items():
            for burst in own:
                over = burst.changed_ms // spec.every < now // spec.every
                if over and burst.end + wait > clock and burst.stands < len(burst.rows):
                    self._show(key, burst, "early" if burst.end > clock else "late")
                    burst.early = spec.closes
        self.panes = [*shown, *in_order(self.panes)]

    def fold(self, row: Judged, run: Run, now: int = 0) -> None:
        start, end = row.at_ms, row.at_ms + self.spec.gap_ms
        lateness = self.spec.allowed_lateness_ms
        own = self.bursts.setdefault(row.key, [])
        met = [b for b in own if b.start < end and start < b.end and b.end + lateness > row.w_ms]
        merged_end = max([end, *(b.end for b in met)])
        if is_late(row, merged_end, lateness, strict=self.spec.strict):
            run.late.append(late_row(row, end, lateness, strict=self.spec.strict))
            return
        past = row.at_ms + 1 if self.spec.strict else min([end, *(b.end for b in met)])
        merged = Burst(min([start, *(b.start for b in met)]), merged_end, [], past <= row.w_ms)
        for burst in met:
            own.remove(burst)
            merged.rows += burst.rows
            merged.late |= burst.late
        merged.rows.append(row)
        own.append(merged)
        merged.changed_ms = now
        withdraws = self._stand(row.key, merged, met)
        on_time = merged.end > row.w_ms
        fires = withdraws or self._fires(merged, met, row.at_ms)
        if self.spec.every and fires and (on_time or not self.spec.closes):
            self._show(row.key, merged, "early" if on_time else "late")
            merged.early = self.spec.closes

    def _fires(self, merged: Burst, met: list[Burst], at: int) -> bool:
        every = self.spec.every
        if self.spec.by == "rows":
            return len(merged.rows) - merged.stands >= every
        if self.spec.by == "event_time":
            before = [row.at_ms for burst in met for row in burst.rows]
            return bool(before) and at // every > max(before) // every
        return False

    def _stand(self, key: str | None, merged: Burst, met: list[Burst]) -> bool:
        """Carry over what was shown; accumulating, withdraw panes under another start."""
        if self.spec.discarding:
            merged.stands = sum(burst.stands for burst in met)
            return False
        before = len(self.panes)
        for burst in sorted(met, key=lambda b: (b.stands_end, b.start)):
            if burst.start == merged.start and burst.stands >= merged.stands:
                merged.stands, merged.stands_end = burst.stands, burst.stands_end
                merged.early = burst.early
            elif burst.start != merged.start and burst.stands:
                self.panes.append(
                    Pane(
                        key, burst.start, burst.stands_end, burst.stands, "late", False, True,
                        **NOTHING,
                    )
                )  # fmt: skip

        return len(self.panes) > before

    def _show(self, key: str | None, burst: Burst, timing: str) -> None:
        size = len(burst.rows)
        rows = [row for row in burst.rows if row not in self.shown or not self.spec.discarding]
        self.panes.append(
            Pane(
                key, burst.start, burst.end, size, timing, False, False, len(rows),
                *values_of(rows),
            )
        )  # fmt: skip
        burst.stands, burst.stands_end = size, burst.end
        self.shown.update(burst.rows)

    def publish(self, clock: int) -> list[Pane]:
        lateness = self.spec.allowed_lateness_ms
        fired, self.panes = self.panes, []
        wait = 0 if self.spec.closes else lateness
        for key, own in self.bursts.items():
            for burst in own:
                lacks = burst.early or burst.stands < len(burst.rows)
                if burst.end + wait <= clock and lacks:
                    burst.early = False
                    self._show(key, burst, "late" if burst.late else "on_time")
        due, self.panes = self.panes, []
        return [*self._final(fired, clock), *in_order(self._final(due, clock))]

    def _final(self, panes: list[Pane], clock: int) -> Iterator[Pane]:
        lateness = self.spec.allowed_lateness_ms
        for pane in panes:
            known = pane.timing != "early" and not pane.retracted
            yield pane._replace(final=known and pane.end + lateness <= clock)


def early_sessions(segments: Sequence[Segment], topics: Sequence[str], spec: Spec) -> Run:
    """Run a log through sessions, with the end of input as the last step."""
    run, table, state = Run(), Table(topics), Sessions(spec)
    for step in heard(segments, table):
        state.record(step.now, step.before)
        for row in step.rows:
            state.fold(row, run, step.now)
        run.note(step, state.publish(step.clock))
    run.steps.append(state.publish(FOREVER_MS))
    return run
