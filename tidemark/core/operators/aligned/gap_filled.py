"""Empty panes for the windows without rows between a key's published windows.

See docs/semantics.md, "Empty windows".  ``GapFilled`` wraps a body of aligned windows and adds
empty panes to its panes.  State is that of the body, and for each key ever seen its *extent*: the
ends of its first and last published window.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.early import EarlyAggregate, EarlyState
from tidemark.core.operators.operator import Changes, TimePortion, WindowBody
from tidemark.core.operators.ports import PANES, Port
from tidemark.core.state.block_store import IN_MEMORY, Block, BlockStore
from tidemark.core.state.blocks import PIECE_LINES, frames_of, total_bytes
from tidemark.core.state.keyed_lines import Numbers
from tidemark.core.time.segment import FOREVER_MS
from tidemark.core.windows.open_bounds import OpenBounds
from tidemark.core.windows.pane import EARLY, END, ON_TIME, REVISION, TIMING, pane_frame

MOST = 1_000
"""A gap of this number of windows or more is not filled."""

_WINDOWS = 128
"""Windows that a portion publishes at most ..."""

_PANES = 100_000
"""... and about how many empty panes."""

EXTENTS = "extents"
"""Name of the frame of extents in the state's changes; changelogs store it.

The frame has the key columns, and the ends of the first and the last window (Int64, ms).
"""

_FIRST, _LAST, _BELOW = "@first_end", "@last_end", "@below"


@dataclass
class GapState:
    """State of the windows, and the extents of keys: the newest line of a key counts."""

    key: tuple[str, ...]
    windows: Any
    store: BlockStore = IN_MEMORY
    blocks: list[Block] = field(default_factory=list)
    added: list[pl.DataFrame] = field(default_factory=list)

    def of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the extents of the keys that have one."""
        schema = {**keys.schema, _FIRST: pl.Int64(), _LAST: pl.Int64()}
        on = list(self.key)
        found = [
            block.join(keys, on=on, how="semi", nulls_equal=True)
            for block in frames_of(self.blocks)
        ]
        return self._newest([pl.DataFrame(schema=schema), *found])

    def put(self, extents: pl.DataFrame) -> None:
        """Replace the extents of keys."""
        self.added.append(extents)
        self._keep(extents)

    def _keep(self, extents: pl.DataFrame) -> None:
        self.blocks.append(self.store.put(FOREVER_MS, extents))
        # Blocks merge only with blocks of similar size, so a line is merged O(log n) times.
        while len(self.blocks) > 1 and self.blocks[-2].height <= 2 * self.blocks[-1].height:
            newest = self._newest(list(frames_of(self.blocks[-2:])))
            self.blocks[-2:] = [self.store.put(FOREVER_MS, newest)]

    def _newest(self, blocks: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return pl.concat(blocks).unique(list(self.key), keep="last", maintain_order=True)

    def changes(self) -> Changes:
        """Return the changes of the windows and the extents since the last call."""
        added, self.added = self.added, []
        return {**self.windows.changes(), **({EXTENTS: self._newest(added)} if added else {})}

    def snapshot(self) -> Iterator[Changes]:
        """Return all state in pieces."""
        newest = self._newest([*frames_of(self.blocks)]) if self.blocks else pl.DataFrame()
        parts = (newest[at : at + PIECE_LINES] for at in range(0, newest.height, PIECE_LINES))
        return chain(self.windows.snapshot(), ({EXTENTS: part} for part in parts))

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        windows_bytes: int = self.windows.size_bytes()
        return windows_bytes + total_bytes(self.blocks)

    def open_windows(self) -> int:
        """Return the number of windows that hold a row."""
        held: int = self.windows.open_windows()
        return held

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of windows that hold a row."""
        held: Iterable[OpenBounds] = self.windows.open_bounds()
        return held

    def apply(self, changes: Changes) -> None:
        """Apply changes to the windows and the extents."""
        self.windows.apply(changes)
        if EXTENTS in changes:
            self._keep(changes[EXTENTS])

    def purge(self, clock_ms: int) -> None:
        """Drop the windows that no row can reach; extents stay."""
        self.windows.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self.windows.validate()
        for block in frames_of(self.blocks):
            assert (block[_FIRST] <= block[_LAST]).all(), "a key's last window is before its first"


@dataclass(frozen=True)
class GapFilled(WindowBody):
    """Aligned windows, with an on-time pane of zero rows for each window in a gap."""

    inner: WindowAggregate | EarlyAggregate[WindowAggregate]

    @property
    def _windows(self) -> WindowAggregate:
        return self.inner.inner if isinstance(self.inner, EarlyAggregate) else self.inner

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of the windows; nothing bounds how far an empty pane is behind the clock."""
        return tuple(replace(port, holds_ms=None) for port in self.inner.outputs)

    def open(self, store: BlockStore = IN_MEMORY) -> GapState:
        """Return empty state."""
        return GapState(self._windows.key, self.inner.open(store), store)

    def record(self, state: GapState, now_ms: int, clock_ms: int) -> None:
        """Take the processing time of a segment."""
        self.inner.record(state.windows, now_ms, clock_ms)

    def rests(self, state: GapState, before_ms: int, clock_ms: int) -> bool:
        """Whether no window is due: only panes of windows show which windows are empty."""
        return self.inner.rests(state.windows, before_ms, clock_ms)

    def fold(self, rows: pl.DataFrame, state: GapState) -> pl.DataFrame:
        """Add rows to their windows; return late ones."""
        return self.inner.fold(rows, state.windows)

    def publish(self, state: GapState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the panes that are due, with the empty windows between those of each key."""
        key = list(self._windows.key)
        parts = list(self._filled(state, before_ms, clock_ms, clock_ms))
        filled = pl.concat(parts, how="vertical_relaxed")
        return filled if len(parts) == 1 else filled.sort(END, *key, REVISION, TIMING)

    def advance_in_portions(
        self, state: GapState, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield the panes of some windows at a time, and the empty ones of some keys at a time."""
        for stop_ms in self._stops(state, before_ms, clock_ms):
            held: pl.DataFrame | None = None
            for panes in self._filled(state, before_ms, stop_ms, clock_ms):
                if held is not None:
                    yield TimePortion({PANES: held}, before_ms, can_pause=self._can_repeat)
                held = panes
            assert held is not None, "a stop without panes"
            yield TimePortion({PANES: held}, stop_ms)
            before_ms = stop_ms

    def _stops(self, state: GapState, before_ms: int, clock_ms: int) -> Iterator[int]:
        windows = self._windows
        inner = state.windows.windows if isinstance(state.windows, EarlyState) else state.windows
        wait_ms = windows.wait_ms
        for stop_ms in windows.stops(inner, before_ms, clock_ms):
            ends = inner.due(before_ms - wait_ms, stop_ms - wait_ms)
            yield from (end_ms + wait_ms for end_ms in ends[_WINDOWS - 1 : -1 : _WINDOWS])
            yield stop_ms
            before_ms = stop_ms

    @property
    def _can_repeat(self) -> bool:
        """Whether the windows of a stop can be published again, after their empty panes."""
        windows = self._windows
        plain = windows is self.inner
        return plain and windows.allowed_lateness_ms == windows.wait_ms

    def _filled(
        self, state: GapState, before_ms: int, stop_ms: int, clock_ms: int
    ) -> Iterator[pl.DataFrame]:
        """Yield the panes that are due: empty ones, key by key, and the windows' own at last.

        Keys whose empty panes are published are known by their extents, and not filled again.
        """
        panes = self.inner.publish(state.windows, before_ms, stop_ms)
        panes = self._windows.with_final(panes, stop_ms, clock_ms)
        key = list(self._windows.key)
        closed = panes.filter(pl.col(TIMING) != EARLY).select(*key, END).unique()
        if closed.is_empty():
            yield panes
            return
        known = state.of(closed.select(key).unique())
        gaps = self._gaps(closed, known)
        ends = [known.select(*key, pl.col(name).alias(END)) for name in (_FIRST, _LAST)]
        first, last = pl.col(END).min().alias(_FIRST), pl.col(END).max().alias(_LAST)
        extents = pl.concat([closed, *ends]).group_by(key).agg(first, last)
        portions = self._portions(gaps)
        for some in portions[:-1]:
            state.put(extents.join(some, on=key, how="semi", nulls_equal=True))
            yield self._empty(some, clock_ms).sort(END, *key)
        state.put(extents)
        empty = self._empty(portions[-1], clock_ms)
        if empty.is_empty():
            yield panes
            return
        filled = pl.concat([panes, empty], how="vertical_relaxed")
        yield filled.sort(END, *key, REVISION, TIMING)

    def _portions(self, gaps: pl.DataFrame) -> list[pl.DataFrame]:
        """Split gaps, sorted by key, into portions of about _PANES empty panes, between keys."""
        windows = self._windows.windows
        span_ms = (gaps[END] - gaps[_BELOW]).to_numpy()
        per_slice = windows.ends_of(np.zeros(1, np.int64)).shape[1]
        most = np.minimum(span_ms // (windows.longest_ms // per_slice) + 1, MOST)
        key = gaps.select(self._windows.key)
        begins = np.flatnonzero(key.select(pl.struct(pl.all()).rle_id()).to_series().diff() != 0)
        begins = np.append(0, begins)
        portion = np.append(0, np.add.accumulate(most))[begins] // _PANES
        cuts = begins[1:][np.diff(portion) > 0].tolist()
        return [gaps[low:high] for low, high in pairwise([0, *cuts, gaps.height])]

    def _gaps(self, closed: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
        """Return key, END and the end before it, for the gaps that may hold new empty windows."""
        key = list(self._windows.key)
        inside = closed.join(known, on=key, how="left", nulls_equal=True)
        outside = inside.filter(
            ~pl.col(END).is_between(pl.col(_FIRST), pl.col(_LAST)).fill_null(value=False)
        )
        firsts = known.select(*key, pl.col(_FIRST).alias(END), pl.lit(0).alias("rank"))
        lasts = known.select(*key, pl.col(_LAST).alias(END), pl.lit(1).alias("rank"))
        ends = pl.concat([outside.select(*key, END, pl.lit(0).alias("rank")), firsts, lasts])
        chain = ends.sort(*key, END, "rank").with_columns(
            pl.col(END).shift(1).over(key).alias(_BELOW)
        )
        return chain.filter(pl.col("rank") == 0, pl.col(_BELOW) < pl.col(END)).drop("rank")

    def _empty(self, gaps: pl.DataFrame, clock_ms: int) -> pl.DataFrame:
        """Return the empty panes of gaps."""
        windows = self._windows
        found, ends = self._ends(gaps)
        rows = np.zeros(found.size, np.int64)
        panes = pane_frame(
            gaps.select(windows.key)[found],
            windows.windows.start_of(ends),
            ends,
            rows,
            ON_TIME,
            ends <= clock_ms - windows.allowed_lateness_ms,
        )
        nothing = windows.aggregation.with_empty_groups(pl.DataFrame({ROWS: rows}))
        return panes.hstack(windows.aggregation.values(nothing))

    def _ends(self, gaps: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """Return the gap and the end of each window in gaps that are short enough to fill."""
        below_ms, end_ms = gaps[_BELOW].to_numpy(), gaps[END].to_numpy()
        at = np.arange(gaps.height)
        steps: list[tuple[Numbers, Numbers]] = []
        while at.size and len(steps) < MOST:
            end_ms = self._windows.windows.end_until(end_ms - 1)
            more = end_ms > below_ms[at]
            at, end_ms = at[more], end_ms[more]
            steps.append((at, end_ms))
        none = np.empty(0, np.int64)
        found = np.concatenate([none, *(numbers for numbers, _ in steps)])
        ends = np.concatenate([none, *(ends for _, ends in steps)])
        short = ~np.isin(found, at)
        return found[short], ends[short]
