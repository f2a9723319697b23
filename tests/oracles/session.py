"""Sessions as slow Python: one row at a time, every session kept for ever."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracles.aligned import NOTHING, LateRow, Pane, Run, in_order, values_of
from tests.oracles.clock import Judged, Table, heard
from tidemark.core.time.segment import FOREVER_MS, Segment


class Spec(NamedTuple):
    """A session window and how it is published."""

    gap_ms: int
    allowed_lateness_ms: int
    strict: bool
    on_final: bool
    own_gaps: bool = False

    def end(self, row: Judged) -> int:
        """Return the end of a row's own window."""
        return row.at_ms + (own_gap(row.value) if self.own_gaps else self.gap_ms)


def own_gap(value: int | None) -> int:
    """Make a gap of a row's value."""
    return 7 if value is None else 1 + abs(value) % 25


def is_late(row: Judged, merged_end: int, allowed_lateness_ms: int, *, strict: bool) -> bool:
    """Say whether a row is late, by its own time or by the end of its session after merging."""
    if strict:
        return row.at_ms + allowed_lateness_ms < row.w_ms
    return merged_end + allowed_lateness_ms <= row.w_ms


def late_row(row: Judged, end: int, allowed_lateness_ms: int, *, strict: bool) -> LateRow:
    """Return a late row with its own window."""
    judged_ms = row.at_ms if strict else end
    return LateRow(row, row.at_ms, end, row.w_ms - judged_ms - allowed_lateness_ms)


@dataclass(eq=False)
class Burst:
    """One session: all its rows, and the panes that stand for it or for what it absorbed."""

    start: int
    end: int
    rows: list[Judged]
    late: bool
    standing: list[Pane] = field(default_factory=list)

    def up_to_date(self) -> bool:
        return any(pane.revision == len(self.rows) for pane in self.standing)


class Sessions:
    """All sessions of all keys."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.bursts: dict[str | None, list[Burst]] = {}
        self.starts_repeat = False

    def fold(self, row: Judged, run: Run) -> None:
        start, end = row.at_ms, self.spec.end(row)
        lateness = self.spec.allowed_lateness_ms
        own = self.bursts.setdefault(row.key, [])
        touching = [b for b in own if b.start < end and start < b.end]
        met = [b for b in touching if b.end + lateness > row.w_ms]
        merged_end = max([end, *(b.end for b in met)])
        if is_late(row, merged_end, lateness, strict=self.spec.strict):
            run.late.append(late_row(row, end, lateness, strict=self.spec.strict))
            return
        merged = Burst(start, end, [row], self._joins_late(row, end, met))
        for burst in met:
            own.remove(burst)
            merged.start = min(merged.start, burst.start)
            merged.end = max(merged.end, burst.end)
            merged.rows += burst.rows
            merged.late |= burst.late
            merged.standing += burst.standing
        self.starts_repeat |= any(b.start == merged.start for b in own)
        own.append(merged)

    def _joins_late(self, row: Judged, end: int, met: list[Burst]) -> bool:
        if self.spec.strict:
            return row.w_ms > row.at_ms
        return any(row.w_ms >= passed for passed in [end, *(b.end for b in met)])

    def publish(self, clock: int) -> Iterator[Pane]:
        wait = self.spec.allowed_lateness_ms if self.spec.on_final else 0
        for key, own in self.bursts.items():
            for burst in own:
                if burst.end + wait <= clock and not burst.up_to_date():
                    pane = self._pane(key, burst, clock)
                    burst.standing = [pane]
                    yield pane

    def withdraw(self) -> Iterator[Pane]:
        for own in self.bursts.values():
            for burst in own:
                for pane in burst.standing:
                    if pane.start != burst.start:
                        yield pane._replace(timing="late", final=False, retracted=True, **NOTHING)
                kept = [pane for pane in burst.standing if pane.start == burst.start]
                burst.standing = sorted(kept, key=lambda p: p.revision)[-1:]

    def _pane(self, key: str | None, burst: Burst, clock: int) -> Pane:
        timing = "late" if burst.late else "on_time"
        final = burst.end + self.spec.allowed_lateness_ms <= clock
        size = len(burst.rows)
        return Pane(
            key, burst.start, burst.end, size, timing, final, False, size, *values_of(burst.rows)
        )


def sessions(
    segments: Sequence[Segment], topics: Sequence[str], spec: Spec, clock: type[Table] = Table
) -> tuple[Run, Sessions]:
    """Run a log through sessions, with the end of input as the last step."""
    run, table, state = Run(), clock(topics), Sessions(spec)
    for step in heard(segments, table):
        for row in step.rows:
            state.fold(row, run)
        run.note(step, [*in_order(state.withdraw()), *in_order(state.publish(step.clock))])
    run.steps.append(in_order(state.publish(FOREVER_MS)))
    return run, state
