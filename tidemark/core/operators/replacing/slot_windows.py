"""Windows of results that replace each other.

See docs/semantics.md, "Every result".  The operator keeps the results themselves, as slots
(slots.py).  When a window may be due, or a slot in a published window changes, it computes the
windows of the slot's key again: plain windows take the slots that stand as rows, and publish all
windows at once.  Panes that differ from the newest published ones are published, and panes of
windows that no longer stand are withdrawn.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.operator import Mask, Numbers, WindowBody, missed
from tidemark.core.operators.ports import BY_TIME, REASON, Port
from tidemark.core.operators.replacing.newest_lines import UNTIL
from tidemark.core.operators.replacing.row_ends import (
    RowWindows,
    due_between,
    first_ends,
    may_end_between,
)
from tidemark.core.operators.replacing.slots import (
    CHANGES,
    LIVE,
    WITHDRAWALS,
    SlotState,
    shown_lines,
)
from tidemark.core.operators.replacing.sums import NONE, sessions_of, sums_within
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.segment import (
    CHANGE_COLUMNS,
    CHANGE_REVISION,
    EVENT_TIME,
    FOREVER_MS,
    NEVER_MS,
    WATERMARK,
    WITHDRAWN,
)
from tidemark.core.windows.pane import (
    EARLY,
    END,
    FINAL,
    LATE,
    ON_TIME,
    RETRACTED,
    REVISION,
    START,
    TIMING,
    pane_schema,
)
from tidemark.core.windows.trigger import EveryRows, OnClose, OnFinal, Trigger
from tidemark.core.windows.window import Session, Sliding

_OLD = "@old."


@dataclass(frozen=True)
class SlotWindows(WindowBody):
    """Aggregate the results of each key that stand, in every window that contains them.

    State is one line for each slot and for each published window, until the clock has passed the
    window by the allowed lateness.

    Args:
        inner: the windows with the trigger ``on_final`` and without lateness.
        allowed_lateness_ms: that of the windows, and of the windows whose results the rows are.
        trigger: ``on_close()``, ``on_final()`` or ``on_update()``.
    """

    inner: WindowAggregate | SlidingAggregate | SessionAggregate
    allowed_lateness_ms: int
    trigger: Trigger

    @property
    def windows(self) -> RowWindows:
        """The bounds of windows."""
        return self.inner.windows

    @property
    def aggregation(self) -> Aggregation:
        """The aggregates of panes."""
        return self.inner.aggregation

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self.inner.key

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of panes and late rows."""
        panes, late = self.inner.outputs
        return replace(panes, holds_ms=self.allowed_lateness_ms), late

    @property
    def _updates(self) -> bool:
        """Whether each change of a window is shown, however far the clock is."""
        return self.trigger == EveryRows(1)

    @property
    def _wait_ms(self) -> int:
        return self.allowed_lateness_ms if isinstance(self.trigger, OnFinal) else 0

    def open(self, store: BlockStore = IN_MEMORY) -> SlotState:
        """Return empty state."""
        return SlotState(self.windows, self.key, self.allowed_lateness_ms, store)

    def pending(self, state: SlotState) -> bool:
        """Whether a window may be due or corrected later."""
        return state.is_open

    def fold(self, rows: pl.DataFrame, state: SlotState) -> pl.DataFrame:
        """Add and withdraw slots; return the rows that are late."""
        at_ms = rows[EVENT_TIME].to_numpy()
        end_ms = first_ends(self.windows, at_ms)
        late: Mask = end_ms + self.allowed_lateness_ms <= rows[WATERMARK].to_numpy()
        accepted = rows.filter(pl.Series(~late)) if late.any() else rows
        if accepted.height:
            state.take(accepted)
        return self._late(rows.filter(pl.Series(late)), end_ms[late])

    def _late(self, rows: pl.DataFrame, end_ms: Numbers) -> pl.DataFrame:
        reason = pl.when(WITHDRAWN).then(pl.lit("late withdrawal")).otherwise(pl.lit(BY_TIME))
        named = rows.with_columns(reason.alias(REASON)).drop(*CHANGE_COLUMNS)
        start_ms = rows[EVENT_TIME].to_numpy()
        return missed(named, start_ms, end_ms, end_ms + self.allowed_lateness_ms)

    def publish(self, state: SlotState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return withdrawals of windows that no longer stand, then panes that are new."""
        low_ms = max(NEVER_MS, before_ms - self._wait_ms)
        high_ms = max(NEVER_MS, clock_ms - self._wait_ms)
        found = self._wanted(state, low_ms, high_ms)
        if found is None:
            return self._none
        keys, since_ms = found
        lines = state.slots.of(keys)
        if lines is None:
            return self._none
        # A sliding window also begins just after a row.
        lines = lines.filter(pl.col(EVENT_TIME) >= max(NEVER_MS, since_ms - 1))
        open_ms = max(NEVER_MS, before_ms - self.allowed_lateness_ms)
        reached = (pl.col(START) >= since_ms) & (pl.col(END) > open_ms)
        windows = self._counted(self._computed(lines.filter(LIVE)).filter(reached), lines)
        self._hold(state, lines, windows)
        old = self._shown(state, keys, windows).filter(reached)
        due = windows if self._updates else windows.filter(pl.col(END) <= high_ms)
        panes = self._changed(due, old)
        gone = self._gone(due, old, lines)
        self._note(state, panes, gone, old, windows, clock_ms)
        return self._framed(panes, gone, low_ms, clock_ms)

    @cached_property
    def _none(self) -> pl.DataFrame:
        columns = self.inner.columns
        return pl.DataFrame(schema=pane_schema(self.key, columns, self.aggregation.value_types))

    def _wanted(
        self, state: SlotState, low_ms: int, high_ms: int
    ) -> tuple[pl.DataFrame, int] | None:
        """Return keys that may have something to publish, and the first start of such windows."""
        parts, earliest_ms = [], []
        touched = state.take_touched()
        if touched is not None:
            # A slot changes windows that end after it.
            shown = touched if self._updates else touched.filter(pl.col(EVENT_TIME) < high_ms)
            if shown.height:
                parts.append(shown.select(self.key))
                earliest_ms.append(int(shown[EVENT_TIME].to_numpy().min()))
        if not self._updates and may_end_between(self.windows, low_ms, high_ms):
            due = state.slots.where(
                lambda lines: (
                    due_between(self.windows, lines, low_ms, high_ms) & lines[LIVE].to_numpy()
                )
            )
            if due is not None:
                parts.append(due.select(self.key))
                earliest_ms.append(max(low_ms, int(due[EVENT_TIME].to_numpy().min())))
        if not parts:
            return None
        since_ms = min(earliest_ms) - self.windows.longest_ms
        if isinstance(self.windows, Session):
            since_ms = NEVER_MS
        return pl.concat(parts).unique(), max(NEVER_MS, since_ms)

    def _computed(self, slots: pl.DataFrame) -> pl.DataFrame:
        """Return all windows of slots as panes."""
        state: Any = self.inner.open(IN_MEMORY)
        never = pl.lit(NEVER_MS, pl.Int64).alias(WATERMARK)
        self.inner.fold(slots.with_columns(never), state)
        return self.inner.publish(state, NEVER_MS, FOREVER_MS)

    def _counted(self, windows: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
        """Return windows with the REVISION and the CHANGES of their slots."""
        weight = pl.col(CHANGE_REVISION) + pl.col(WITHDRAWALS)
        weighed = lines.select(*self.key, EVENT_TIME, weight.alias(REVISION), CHANGES)
        names = (REVISION, CHANGES)
        sums = sums_within(weighed, windows, self._first_ms(windows), self.key, names)
        columns = (pl.Series(n, values) for n, values in zip(names, sums, strict=True))
        return windows.with_columns(columns)

    def _first_ms(self, windows: pl.DataFrame) -> Numbers:
        """Return the time from which slots are in each window."""
        if isinstance(self.windows, Session | Sliding):
            return windows[START].to_numpy()
        return self.windows.first_slice(windows[END].to_numpy())

    def _hold(self, state: SlotState, lines: pl.DataFrame, windows: pl.DataFrame) -> None:
        """Keep the slots of sessions that have grown for as long as the sessions."""
        if not isinstance(self.windows, Session) or windows.is_empty():
            return
        session = sessions_of(lines, windows, self.key)
        inside = np.flatnonzero(session != NONE)
        bounds = windows.select(START, END)[session[inside]]
        start_ms, end_ms = bounds[START].to_numpy(), bounds[END].to_numpy()
        held = lines[inside]
        short = held[UNTIL].to_numpy() < end_ms
        # Twice the length, so that a line is written again few times while a session grows.
        until = pl.Series(UNTIL, end_ms + (end_ms - start_ms))
        state.slots.add(held.with_columns(until).filter(pl.Series(short)))

    def _shown(self, state: SlotState, keys: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
        """Return the newest published panes of keys."""
        found = state.shown.of(keys)
        if found is not None:
            return found
        return shown_lines(self._with_until(windows.clear()), self.key, live=True)

    @staticmethod
    def _with_until(panes: pl.DataFrame) -> pl.DataFrame:
        return panes.with_columns(pl.col(END).alias(UNTIL))

    def _changed(self, due: pl.DataFrame, old: pl.DataFrame) -> pl.DataFrame:
        """Return the windows that differ from their newest pane, with a higher revision."""
        by = [*self.key, START]
        names = (END, REVISION, CHANGES, LIVE)
        older = old.select(*by, *(pl.col(name).alias(_OLD + name) for name in names))
        both = due.join(older, on=by, how="left", nulls_equal=True, maintain_order="left")
        same = pl.col(_OLD + LIVE) & pl.all_horizontal(
            pl.col(_OLD + name) == pl.col(name) for name in (END, CHANGES)
        )
        changed = both.filter(~same.fill_null(value=False))
        return changed.with_columns(pl.max_horizontal(REVISION, pl.col(_OLD + REVISION) + 1))

    def _gone(self, due: pl.DataFrame, old: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
        """Return the published panes whose windows no longer stand, with a higher revision."""
        gone = old.filter(LIVE).join(due, on=[*self.key, START], how="anti", nulls_equal=True)
        before = gone[REVISION]
        counted = self._counted(gone, lines)
        return counted.with_columns(pl.max_horizontal(REVISION, before + 1))

    def _note(
        self,
        state: SlotState,
        panes: pl.DataFrame,
        gone: pl.DataFrame,
        old: pl.DataFrame,
        windows: pl.DataFrame,
        clock_ms: int,
    ) -> None:
        """Write down the panes; a withdrawn one as long as a window may get its start again."""
        open_ms = max(NEVER_MS, clock_ms - self.allowed_lateness_ms)
        correctable = self._with_until(panes.filter(pl.col(END) > open_ms))
        state.shown.add(shown_lines(correctable, self.key, live=True))
        by = [*self.key, START]
        withdrawn = pl.concat(
            [
                shown_lines(gone, self.key, live=False),
                old.filter(~pl.col(LIVE)).join(panes, on=by, how="anti", nulls_equal=True),
            ]
        )
        now = windows.select(*by, pl.col(END).alias(_OLD + END))
        held = withdrawn.join(now, on=by, how="left", nulls_equal=True, maintain_order="left")
        longer = (pl.col(_OLD + END) > pl.col(UNTIL)).fill_null(value=False)
        news = held.with_columns(pl.max_horizontal(UNTIL, _OLD + END).alias(UNTIL)).filter(
            longer | (pl.int_range(pl.len()) < gone.height)
        )
        state.shown.add(news.drop(_OLD + END))

    def _framed(
        self, panes: pl.DataFrame, gone: pl.DataFrame, low_ms: int, clock_ms: int
    ) -> pl.DataFrame:
        """Return withdrawals and panes with the columns of panes, each in the order of panes."""
        first = pl.col(_OLD + REVISION).is_null() & (pl.col(END) > low_ms)
        timing = pl.when(first).then(pl.lit(ON_TIME)).otherwise(pl.lit(LATE))
        if self._updates:
            timing = pl.when(pl.col(END) > clock_ms).then(pl.lit(EARLY)).otherwise(pl.lit(LATE))
        final = pl.col(END) <= max(NEVER_MS, clock_ms - self.allowed_lateness_ms)
        shown = panes.with_columns(timing.alias(TIMING), final.alias(FINAL))
        order = [END, *self.key, START]
        withdrawn = gone.with_columns(
            pl.lit(LATE).alias(TIMING),
            pl.lit(value=False).alias(FINAL),
            pl.lit(value=True).alias(RETRACTED),
            *(pl.lit(None, dtype).alias(name) for name, dtype in self._values(panes).items()),
        )
        schema = [*self._none.columns]
        return pl.concat([withdrawn.select(schema).sort(order), shown.select(schema).sort(order)])

    def _values(self, panes: pl.DataFrame) -> dict[str, pl.DataType]:
        """Return the types of the values; a large sum has made its column wider."""
        return {name: panes.schema[name] for name in self.aggregation.value_types}


def is_supported(trigger: Trigger) -> bool:
    """Return whether windows of results that replace each other can have a trigger."""
    return isinstance(trigger, OnFinal) or trigger in (OnClose(), EveryRows(1))
