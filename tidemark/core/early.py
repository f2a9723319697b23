"""Early panes of windows: published before the clock reaches the end, at exact rows.

See docs/semantics.md, "Early panes".  ``EarlyAggregate`` stands around a ``WindowAggregate``, which
keeps the partials and publishes what is due; it adds the panes that fire before that:

* ``on_close(early=every(...))``: of the rows that are on time for a window.  Those behind wait for
  the close, as ever.
* ``every(...)`` alone: of all rows accepted, in the order of the log.  Nothing is published at the
  close; what no pane has shown is, when the window is final.

State: that of the windows, and a tally of each key and window (``tallies``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np
import polars as pl

from tidemark.core.block_store import IN_MEMORY, BlockStore
from tidemark.core.blocks import stacked
from tidemark.core.firing import BLOCK, FIRES, PAIR, ROW, with_blocks
from tidemark.core.operator import Changes
from tidemark.core.pane import EARLY, END, LATE, ON_TIME, REVISION, TIMING
from tidemark.core.prefixes import prefixes
from tidemark.core.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.slices import WindowState
from tidemark.core.tallies import HIGHEST, SHOWN, TOTAL, Tallies
from tidemark.core.trigger import Every, EveryProcessingTime, OnClose, OnFinal
from tidemark.core.windowed import WindowAggregate

_BEHIND = "@behind"
_OPEN = "@open"
_PAIR_BLOCK = (PAIR, BLOCK)


@dataclass
class EarlyState:
    """State of windows, tallies, and panes that this segment's rows fired."""

    windows: WindowState
    tallies: Tallies
    fired: list[pl.DataFrame] = field(default_factory=list)
    now_ms: int = NEVER_MS  # processing time of the segment
    _looked_ms: int | None = None

    def turns(self, interval_ms: int, now_ms: int) -> bool:
        """Take the processing time of a segment; whether it is in another interval than before."""
        looked_ms, self.now_ms, self._looked_ms = self._looked_ms, now_ms, now_ms
        return looked_ms is None or looked_ms // interval_ms != now_ms // interval_ms

    def take_fired(self) -> list[pl.DataFrame]:
        """Return the panes that fired, once."""
        fired, self.fired = self.fired, []
        return fired

    def changes(self) -> Changes:
        """Return what was added since the last call."""
        return {**self.windows.changes(), **self.tallies.changes()}

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state."""
        return chain(self.windows.snapshot(), self.tallies.snapshot())

    def size_bytes(self) -> int:
        """Return about how many bytes a snapshot would have."""
        return self.windows.size_bytes() + self.tallies.size_bytes()

    def apply(self, changes: Changes) -> None:
        """Add one piece."""
        self.windows.apply(changes)
        self.tallies.apply(changes)

    def purge(self, clock_ms: int) -> None:
        """Drop the windows that no row can reach any more."""
        self.windows.purge(clock_ms)
        self.tallies.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self.fired, "panes that fired were not published"
        self.windows.validate()
        self.tallies.validate()


@dataclass(frozen=True)
class EarlyAggregate:
    """Windows of aggregates with panes before their close.

    The work of a segment grows with its rows times the windows of each, and with the state of the
    windows that they are in.
    """

    inner: WindowAggregate

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
        """How long after the end of a window rows fire panes of it."""
        return 0 if self._closes else self.inner.allowed_lateness_ms

    @cached_property
    def _by(self) -> tuple[str, ...]:
        return (END, *self.inner.key)

    def fresh(self, store: BlockStore = IN_MEMORY) -> EarlyState:
        """Return state that holds nothing."""
        tallies = Tallies(self.inner.key, self.inner.allowed_lateness_ms, store)
        return EarlyState(self.inner.fresh(store), tallies)

    def record(self, state: EarlyState, now_ms: int, clock_ms: int) -> None:
        """Take the processing time of a segment: show what was not, once an interval is over."""
        if not isinstance(self._every, EveryProcessingTime):
            return
        interval_ms = self._every.interval_ms
        if not state.turns(interval_ms, now_ms):
            return
        lines = state.tallies.unshown()
        if lines is not None:
            over = lines.filter(
                pl.col(HIGHEST) // interval_ms < now_ms // interval_ms,
                pl.col(END) + self._wait_ms > clock_ms,
            )
            panes = self._shown(state, over)
            state.fired += [
                part.with_columns(pl.col(TIMING).replace(ON_TIME, EARLY)) for part in panes
            ]

    def publish(self, state: EarlyState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the early panes of the segment, and what the clock made due."""
        parts = state.take_fired()
        if self._closes:
            parts += self._closing(state, self.inner.due(state.windows, before_ms, clock_ms))
            return self.inner.panes(parts, clock_ms)
        state.windows.take_touched()
        lateness_ms = self.inner.allowed_lateness_ms
        ends = state.windows.due(before_ms - lateness_ms, clock_ms - lateness_ms)
        rest = state.tallies.unshown(ends)
        if rest is not None:
            parts += self._shown(state, rest)
        return self.inner.panes(parts, clock_ms)

    def fold(self, rows: pl.DataFrame, state: EarlyState) -> pl.DataFrame:
        """Fire early panes, then add each row's share to its windows; return late rows."""
        counts = self._counts(rows)
        if counts is not None:
            self._fire(rows, counts, state)
        return self.inner.fold(rows, state.windows)

    def _counts(self, rows: pl.DataFrame) -> pl.DataFrame | None:
        """Return END, key, ROW, EVENT_TIME and whether it is behind, of rows in windows."""
        starts = self.inner.windows.slice_start(rows[EVENT_TIME].to_numpy())
        watermark_ms = rows[WATERMARK].to_numpy()
        parts = []
        columns = rows.select(*self.inner.key, EVENT_TIME)
        for end_ms in self.inner.windows.ends_of(starts).T:
            row = np.flatnonzero((end_ms > starts) & (end_ms + self._wait_ms > watermark_ms))
            if row.size:
                parts.append(
                    columns[row].with_columns(
                        pl.Series(END, end_ms[row]),
                        pl.Series(ROW, row),
                        pl.Series(_BEHIND, end_ms[row] <= watermark_ms[row]),
                    )
                )
        return pl.concat(parts) if parts else None

    def _fire(self, rows: pl.DataFrame, counts: pl.DataFrame, state: EarlyState) -> None:
        """Keep the panes that counts fire, and the tallies after them."""
        pairs = self._pairs(counts, state.tallies)
        if isinstance(self._every, EveryProcessingTime):
            counts = counts.with_columns(pl.lit(state.now_ms, pl.Int64).alias(EVENT_TIME))
        counts = self._joined(counts, pairs.select(*self._by, PAIR, TOTAL, HIGHEST))
        counts = with_blocks(counts.sort(PAIR, ROW), self._every)
        tallies = self._tallies(counts, pairs)
        blocks = self._blocks(rows, counts, pairs, tallies, state)
        if blocks is not None:
            state.fired.append(self._fired(blocks, counts))
            if self.inner.discarding:
                rest = blocks.join(tallies.select(PAIR, BLOCK), on=(PAIR, BLOCK), how="semi")
                tallies = tallies.join(rest.drop(BLOCK), on=PAIR, how="left")
        state.tallies.add(tallies.drop(PAIR, BLOCK))

    def _blocks(
        self,
        rows: pl.DataFrame,
        counts: pl.DataFrame,
        pairs: pl.DataFrame,
        tallies: pl.DataFrame,
        state: EarlyState,
    ) -> pl.DataFrame | None:
        """Return what panes hold, by PAIR and BLOCK; discarding, of the open blocks too."""
        if not self.inner.discarding:
            # Counts after the last that fires are in no pane yet.
            shown = tallies.select(PAIR, pl.col(BLOCK).alias(_OPEN))
            counts = counts.join(shown, on=PAIR, how="left").filter(pl.col(BLOCK) < pl.col(_OPEN))
        if counts.is_empty():
            return None
        of_rows = rows[counts[ROW]].hstack(counts.select(PAIR, BLOCK))
        blocks = [self.inner.aggregation.partials(of_rows, _PAIR_BLOCK)]
        if self.inner.discarding:
            open_ = pairs.filter(pl.col(SHOWN) < pl.col(TOTAL))
            if not open_.is_empty():
                blocks.append(_partials(open_, self._by).with_columns(_block(1)))
            return self.inner.aggregation.combine(blocks, _PAIR_BLOCK)
        firing = pairs.join(counts.select(PAIR), on=PAIR, how="semi").filter(pl.col(TOTAL) > 0)
        for part in self._counted(state.windows, firing):
            before = part.join(firing.select(*self._by, PAIR), on=self._by, nulls_equal=True)
            blocks.append(_partials(before, self._by).with_columns(_block(0)))
        lines = stacked(blocks).sort(_PAIR_BLOCK)
        of = lines.select(_PAIR_BLOCK)
        sums = prefixes(self.inner.aggregation, lines.drop(_PAIR_BLOCK), of[PAIR].to_numpy())
        return sums.hstack(of)

    def _fired(self, blocks: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
        """Return the panes of the blocks whose last count fired."""
        late = pl.when(_BEHIND).then(pl.lit(LATE)).otherwise(pl.lit(EARLY))
        fired = counts.filter(FIRES).select(
            *self._by, PAIR, BLOCK, pl.col(TOTAL).alias(REVISION), late.alias(TIMING)
        )
        return fired.join(blocks, on=_PAIR_BLOCK, how="inner").drop(PAIR, BLOCK)

    def _counted(self, state: WindowState, windows: pl.DataFrame) -> list[pl.DataFrame]:
        """Return what counts in some keys and windows so far, as panes."""
        if windows.is_empty():
            return []
        ends = windows[END].unique().sort().to_list()
        if self._closes:
            parts = self.inner.on_time(state, ends)
        else:
            parts = self.inner.complete(state, ends)
        return [part.join(windows, on=self._by, how="semi", nulls_equal=True) for part in parts]

    def _shown(self, state: EarlyState, lines: pl.DataFrame) -> list[pl.DataFrame]:
        """Return panes of what tallies say was not shown, and note that it is."""
        panes = self._counted(state.windows, lines)
        if not panes:
            return []
        if self.inner.discarding:
            panes = [self._since(part, lines) for part in panes]
        shown = lines.select(*self._by, TOTAL, pl.col(TOTAL).alias(SHOWN), HIGHEST)
        state.tallies.add(shown)
        return panes

    def _closing(self, state: EarlyState, parts: list[pl.DataFrame]) -> list[pl.DataFrame]:
        """Return what the clock made due; discarding, on-time panes of what no early one showed."""
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
        """Replace what panes hold by what tallies say was not shown; nothing, where no line is."""
        panes = part.select(*self._by, REVISION, TIMING)
        found = self._joined(panes, lines.drop(TOTAL, SHOWN, HIGHEST))
        return self.inner.aggregation.with_nothing(found)

    def _pairs(self, counts: pl.DataFrame, tallies: Tallies) -> pl.DataFrame:
        """Number the keys and windows of counts, and tell what is known of each."""
        pairs = counts.select(self._by).unique(maintain_order=True)
        pairs = pairs.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(PAIR))
        known = tallies.of(pairs.select(self._by))
        if known is None:
            nothing = {TOTAL: 0, SHOWN: 0, HIGHEST: NEVER_MS}
            return pairs.with_columns(
                pl.lit(value, pl.Int64).alias(name) for name, value in nothing.items()
            )
        return self._joined(pairs, known).with_columns(
            pl.col(TOTAL, SHOWN).fill_null(0), pl.col(HIGHEST).fill_null(NEVER_MS)
        )

    def _joined(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        return left.join(right, on=self._by, how="left", nulls_equal=True)

    def _tallies(self, counts: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        """Return the pairs' tallies after the counts, and the number of the open block."""
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
