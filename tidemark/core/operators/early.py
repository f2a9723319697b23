"""Early panes of windows: published before the clock reaches the end, at exact rows.

See docs/semantics.md, "Early panes".  ``EarlyAggregate`` wraps aligned or sliding windows.  The
windows keep the partials and publish the panes that are due.  ``EarlyAggregate`` adds early panes:

* With ``on_close(early=every(...))``, early panes hold the rows that are on time for a window.
  Rows behind are published at the close or after it, as without early panes.
* With ``every(...)`` alone, panes hold all accepted rows, in the order of the log.  The close
  publishes nothing.  When the window is final, the rows that no pane has shown are published.

State is that of the windows, and a tally of each key and window (tallies.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

import polars as pl

from tidemark.core.operators.early_windows import EarlyWindows
from tidemark.core.operators.firing import BEHIND, BLOCK, COUNTS, FIRES, PAIR, ROW, with_blocks
from tidemark.core.operators.operator import Frames, TimePortion, WindowBody
from tidemark.core.operators.ports import PANES, Port
from tidemark.core.operators.tallies import HIGHEST, SHOWN, TOTAL, TalliedState, Tallies
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import stacked
from tidemark.core.state.prefixes import prefixes
from tidemark.core.time.segment import EVENT_TIME, FOREVER_MS, NEVER_MS
from tidemark.core.windows.pane import EARLY, END, LATE, ON_TIME, REVISION, TIMING
from tidemark.core.windows.trigger import Every, EveryProcessingTime, OnClose, OnFinal

_OPEN = "@open"
_PAIR_BLOCK = (PAIR, BLOCK)


Inner = TypeVar("Inner", bound=EarlyWindows)


@dataclass
class EarlyState(TalliedState):
    """State of windows, tallies, and the panes that this segment's rows fired."""

    fired: list[pl.DataFrame] = field(default_factory=list)
    now_ms: int = NEVER_MS  # processing time of the segment
    _looked_ms: int | None = None

    def turns(self, interval_ms: int, now_ms: int) -> bool:
        """Take the processing time of a segment; return whether its interval is a new one."""
        looked_ms, self.now_ms, self._looked_ms = self._looked_ms, now_ms, now_ms
        return looked_ms is None or looked_ms // interval_ms != now_ms // interval_ms

    def take_fired(self) -> list[pl.DataFrame]:
        """Return the panes that fired, once."""
        fired, self.fired = self.fired, []
        return fired

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self.fired, "panes that fired were not published"
        super().validate()


@dataclass(frozen=True)
class EarlyAggregate(WindowBody, Generic[Inner]):
    """Aggregate rows in windows, with panes before the windows close.

    The work of a segment grows with the number of its rows times the windows of a row, and with the
    state of those windows.
    """

    inner: Inner

    @cached_property
    def _every(self) -> Every:
        trigger = self.inner.trigger
        every = trigger.early if isinstance(trigger, OnClose) else trigger
        assert every is not None, f"no early panes {trigger}"
        assert not isinstance(every, OnFinal), f"no early panes {trigger}"
        return every

    @cached_property
    def _closes(self) -> bool:
        return isinstance(self.inner.trigger, OnClose)

    @property
    def _wait_ms(self) -> int:
        """The time after the end of a window in which rows fire its panes, ms."""
        return 0 if self._closes else self.inner.allowed_lateness_ms

    @cached_property
    def _by(self) -> tuple[str, ...]:
        return (END, *self.inner.key)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of the windows."""
        return self.inner.outputs

    def open(self, store: BlockStore = IN_MEMORY) -> EarlyState:
        """Return empty state."""
        inner = self.inner
        tallies = Tallies(inner.key, inner.allowed_lateness_ms, inner.grid_ms, store)
        return EarlyState(inner.open(store), tallies)

    def record(self, state: EarlyState, now_ms: int, clock_ms: int) -> None:
        """Take the processing time of a segment; in a new interval, fire panes of unshown rows."""
        if not isinstance(self._every, EveryProcessingTime):
            return
        interval_ms = self._every.interval_ms
        if not state.turns(interval_ms, now_ms):
            return
        lines = state.tallies.unshown(max(NEVER_MS, clock_ms - self._wait_ms), FOREVER_MS)
        if lines is not None:
            over = lines.filter(pl.col(HIGHEST) // interval_ms < now_ms // interval_ms)
            panes = self._shown(state, over)
            state.fired += [
                part.with_columns(pl.col(TIMING).replace(ON_TIME, EARLY)) for part in panes
            ]

    def rests(self, state: EarlyState, before_ms: int, clock_ms: int) -> bool:
        """Whether the clock stands still, and processing time fires no panes."""
        by_processing_time = isinstance(self._every, EveryProcessingTime)
        return not by_processing_time and super().rests(state, before_ms, clock_ms)

    def publish(self, state: EarlyState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the early panes of the segment, then the panes that the clock makes due."""
        parts = state.take_fired()
        if self._closes:
            parts += self._closing(state, self.inner.due(state.windows, before_ms, clock_ms))
            return self.inner.panes(parts, clock_ms)
        state.windows.settle()
        wait_ms = self._wait_ms
        rest = state.tallies.unshown(max(NEVER_MS, before_ms - wait_ms), clock_ms - wait_ms)
        if rest is not None:
            parts += self._shown(state, rest)
        return self.inner.panes(parts, clock_ms)

    @property
    def can_portion(self) -> bool:
        """Whether the rows of a segment can be taken in portions: not by processing time."""
        return not isinstance(self._every, EveryProcessingTime)

    def flush(self, state: EarlyState, clock_ms: int) -> Frames:
        """Return the panes that rows fired."""
        if not self._closes:
            state.windows.settle()
        return {PANES: self.inner.panes(state.take_fired(), clock_ms)}

    def advance_in_portions(
        self, state: EarlyState, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield the panes of some windows at a time."""
        stops = [clock_ms]
        if self._closes:
            stops = self.inner.stops(state.windows, before_ms, clock_ms)
        for stop_ms in stops:
            panes = self.publish(state, before_ms, stop_ms)
            yield TimePortion({PANES: self.inner.with_final(panes, stop_ms, clock_ms)}, stop_ms)
            before_ms = stop_ms

    def can_pause(self, _state: EarlyState) -> bool:
        """Whether no row waits for a correction, which ``publish`` makes."""
        return not self._closes or self.inner.allowed_lateness_ms == 0

    def fold(self, rows: pl.DataFrame, state: EarlyState) -> pl.DataFrame:
        """Fire early panes, then add rows to their windows; return late rows."""
        counts = self.inner.counts(rows, state.windows, self._wait_ms)
        if counts is not None:
            self._fire(rows, counts, state)
        return self.inner.fold(rows, state.windows)

    def _fire(self, rows: pl.DataFrame, counts: pl.DataFrame, state: EarlyState) -> None:
        """Keep the panes that counts fire, and the tallies after the counts."""
        pairs = self._pairs(counts, state)
        if isinstance(self._every, EveryProcessingTime):
            counts = counts.with_columns(pl.lit(state.now_ms, pl.Int64).alias(EVENT_TIME))
        counts = self._joined(counts, pairs.select(*self._by, PAIR, TOTAL, SHOWN, HIGHEST))
        counts = with_blocks(counts.sort(PAIR, ROW), self._every)
        tallies = self._tallies(counts, pairs)
        blocks = self._blocks(rows, counts, pairs, tallies, state)
        if blocks is not None:
            state.fired.append(self._fired(blocks, counts))
            if self.inner.discarding:
                rest = blocks.join(tallies.select(PAIR, BLOCK), on=(PAIR, BLOCK), how="semi")
                tallies = tallies.join(rest.drop(BLOCK), on=PAIR, how="left")
        # A sliding window that a row made may hold no rows yet.
        state.tallies.add(tallies.filter(pl.col(TOTAL) > 0).drop(PAIR, BLOCK))

    def _blocks(
        self,
        rows: pl.DataFrame,
        counts: pl.DataFrame,
        pairs: pl.DataFrame,
        tallies: pl.DataFrame,
        state: EarlyState,
    ) -> pl.DataFrame | None:
        """Return partials by PAIR and BLOCK; with discarding panes also of the open blocks."""
        if not self.inner.discarding:
            # Counts after the last firing one are in no pane yet.
            shown = tallies.select(PAIR, pl.col(BLOCK).alias(_OPEN))
            counts = counts.join(shown, on=PAIR, how="left").filter(pl.col(BLOCK) < pl.col(_OPEN))
        if counts.is_empty():
            return None
        blocks = self._of_rows(rows, counts.filter(COUNTS))
        if self.inner.discarding:
            open_ = pairs.filter(pl.col(SHOWN) < pl.col(TOTAL))
            if not open_.is_empty():
                blocks.append(_partials(open_, self._by).with_columns(_block(1)))
            return self.inner.aggregation.combine(blocks, _PAIR_BLOCK) if blocks else None
        firing = pairs.join(counts.select(PAIR), on=PAIR, how="semi").filter(pl.col(TOTAL) > 0)
        for part in self._counted(state, firing):
            before = part.join(firing.select(*self._by, PAIR), on=self._by, nulls_equal=True)
            blocks.append(_partials(before, self._by).with_columns(_block(0)))
        lines = stacked(blocks).sort(_PAIR_BLOCK)
        of = lines.select(_PAIR_BLOCK)
        sums = prefixes(self.inner.aggregation, lines.drop(_PAIR_BLOCK), of[PAIR].to_numpy())
        return sums.hstack(of)

    def _of_rows(self, rows: pl.DataFrame, counts: pl.DataFrame) -> list[pl.DataFrame]:
        """Return partials of counts, by PAIR and BLOCK."""
        if counts.is_empty():
            return []
        of_rows = rows[counts[ROW]].hstack(counts.select(_PAIR_BLOCK))
        return [self.inner.aggregation.partials(of_rows, _PAIR_BLOCK)]

    def _fired(self, blocks: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
        """Return the panes of the blocks whose last count fired."""
        late = pl.when(BEHIND).then(pl.lit(LATE)).otherwise(pl.lit(EARLY))
        fired = counts.filter(FIRES).select(
            *self._by, PAIR, BLOCK, pl.col(TOTAL).alias(REVISION), late.alias(TIMING)
        )
        # A row that makes a window without being in it adds no block.  Its pane shows the last one.
        held = fired.sort(BLOCK).join_asof(
            blocks.sort(BLOCK), on=BLOCK, by=PAIR, strategy="backward", check_sortedness=False
        )
        return held.drop(PAIR, BLOCK)

    def _counted(self, state: EarlyState, windows: pl.DataFrame) -> list[pl.DataFrame]:
        """Return the partials of keys and windows so far."""
        if windows.is_empty():
            return []
        asked = windows.select(self._by)
        return self.inner.counted(state.windows, asked, behind=not self._closes)

    def _shown(self, state: EarlyState, lines: pl.DataFrame) -> list[pl.DataFrame]:
        """Return panes of windows with unshown rows, and mark the rows as shown.

        ``lines``: tallies of the windows.
        """
        panes = self._counted(state, lines)
        if not panes:
            return []
        if self.inner.discarding:
            panes = [self._since(part, lines) for part in panes]
        shown = lines.select(*self._by, TOTAL, pl.col(TOTAL).alias(SHOWN), HIGHEST)
        state.tallies.add(shown)
        return panes

    def _closing(self, state: EarlyState, parts: list[pl.DataFrame]) -> list[pl.DataFrame]:
        """Return the panes that the clock makes due.

        With discarding panes, on-time panes hold only the rows that no early pane has shown.
        """
        if not self.inner.discarding:
            return parts
        made = []
        for part in parts:
            on_time = part.filter(pl.col(TIMING) == ON_TIME)
            lines = None if on_time.is_empty() else state.tallies.of(on_time.select(self._by))
            if lines is not None:
                part = part.filter(pl.col(TIMING) != ON_TIME)
                made.append(self._since(on_time, lines.filter(pl.col(SHOWN) < pl.col(TOTAL))))
            made.append(part)
        return made

    def _since(self, part: pl.DataFrame, lines: pl.DataFrame) -> pl.DataFrame:
        """Replace the partials of panes by those of unshown rows in tallies, or by zero rows."""
        panes = part.select(*self._by, REVISION, TIMING)
        found = self._joined(panes, lines.drop(TOTAL, SHOWN, HIGHEST))
        return self.inner.aggregation.with_empty_groups(found)

    def _pairs(self, counts: pl.DataFrame, state: EarlyState) -> pl.DataFrame:
        """Number the keys and windows of counts; return TOTAL, SHOWN and HIGHEST of each."""
        pairs = counts.select(self._by).unique(maintain_order=True)
        pairs = pairs.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(PAIR))
        new, known = pairs.select(self._by), state.tallies.of(pairs.select(self._by))
        if known is not None:
            new = new.join(known, on=self._by, how="anti", nulls_equal=True)
        before = None if new.is_empty() else self.inner.before(state.windows, new, self._wait_ms)
        nothing = {TOTAL: 0, SHOWN: 0, HIGHEST: NEVER_MS}
        parts = [part for part in (known, before) if part is not None]
        if not parts:
            return pairs.with_columns(
                pl.lit(value, pl.Int64).alias(name) for name, value in nothing.items()
            )
        found = stacked(parts)
        if not self.inner.discarding:
            found = found.select(*self._by, *(name for name in nothing if name in found.columns))
        if SHOWN not in found.columns:
            found = found.with_columns(pl.lit(0, pl.Int64).alias(SHOWN))
        return self._joined(pairs, found).with_columns(
            pl.col(name).fill_null(value) for name, value in nothing.items()
        )

    def _joined(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        return left.join(right, on=self._by, how="left", nulls_equal=True)

    def _tallies(self, counts: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return the tallies of pairs after the counts, and the number of the open block."""
        fires = pl.col(FIRES)
        after = counts.group_by(PAIR, maintain_order=True).agg(
            pl.col(TOTAL).max(),
            pl.max_horizontal(pl.col(EVENT_TIME).max(), pl.col(HIGHEST).first()).alias(HIGHEST),
            pl.col(TOTAL).filter(fires).max().alias(SHOWN),
            (pl.col(BLOCK).last() + fires.last().cast(pl.Int64)).alias(BLOCK),
        )
        known = pairs.select(*self._by, PAIR, pl.col(SHOWN).alias("before"))
        after = after.join(known, on=PAIR, how="left").with_columns(
            pl.col(SHOWN).fill_null(pl.col("before"))
        )
        return after.select(*self._by, TOTAL, SHOWN, HIGHEST, PAIR, BLOCK)


def _partials(lines: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """Return the partials of tallies or panes, by PAIR alone."""
    facts = (TOTAL, SHOWN, HIGHEST, REVISION, TIMING)
    return lines.drop(*by, *(name for name in facts if name in lines.columns))


def _block(number: int) -> pl.Expr:
    return pl.lit(number, pl.Int64).alias(BLOCK)
