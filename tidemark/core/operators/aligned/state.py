"""Keyed state of aligned windows: blocks of partial aggregates by time slice.

See docs/semantics.md, "Windows"; operator.py explains time slices.  A *block* is a frame of the
partials of one time slice: the key columns, ROWS and the columns of the aggregates.  Blocks of rows
behind also have PASSED and CLOSED.

There is no Python object per key or per row.  A segment appends one block to each time slice of its
rows.  A segment with rows in many time slices is kept whole at first (slice_buffer.py), and divided
later together with others.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.columns import repeated_number, without
from tidemark.core.operators.aligned.slice_buffer import SLICE, SliceBuffer
from tidemark.core.operators.operator import Changes
from tidemark.core.state.block_store import IN_MEMORY, Block, BlockStore
from tidemark.core.state.blocks import frames_of, in_pieces, merge_newest, stacked, total_bytes
from tidemark.core.state.keyed_lines import Numbers
from tidemark.core.time.row_watermarks import SEGMENT
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS
from tidemark.core.windows.open_bounds import OpenBounds, aligned_bounds
from tidemark.core.windows.pane import END
from tidemark.core.windows.window import AlignedWindows

PASSED = "@passed"  # last window end at or before W; NEVER_MS: W overtook none of the row's windows
CLOSED = "@closed"  # last window end at or before W - allowed lateness; NEVER_MS: none

BLOCKS = "blocks"
"""Name of the only frame in the state's changes; changelogs store it.

The frame has SLICE, PASSED and CLOSED (Int64, ms), the key columns, and the partials of the
aggregates with ROWS.
"""

_MANY = 32
"""Blocks of a time slice that are merged into fewer, so that their number stays bounded."""

_FEW = 8
"""A segment with rows in more time slices than this goes to the buffer first."""

_PORTION_BYTES = 4 * 2**20
"""Approximate size of the blocks read at once; a single window may have more."""


@dataclass(slots=True)
class TimeSlice:
    """The blocks of one time slice, oldest first."""

    ahead: list[Block] = field(default_factory=list)
    behind: list[Block] = field(default_factory=list)


class WindowState:
    """Blocks by time slice, and the changes since the last call of ``changes``."""

    def __init__(
        self,
        windows: AlignedWindows,
        aggregation: Aggregation,
        key: tuple[str, ...],
        allowed_lateness_ms: int,
        store: BlockStore = IN_MEMORY,
    ) -> None:
        """Start empty; ``store``: where blocks lie."""
        self.windows = windows
        self.aggregation = aggregation
        self.key = key
        self.allowed_lateness_ms = allowed_lateness_ms
        self._store = store
        self._slices: dict[int, TimeSlice] = {}
        self._starts: list[int] = []
        self._ahead, self._behind = SliceBuffer(), SliceBuffer()
        self._added: list[pl.DataFrame] = []
        self._touched: list[pl.DataFrame] = []
        self._unsettled: list[pl.DataFrame] = []
        self._last_purged = self._closed_ms = NEVER_MS

    def add_ahead(self, blocks: pl.DataFrame) -> None:
        """Add partials, by SLICE and key, of rows that are on time for all their windows."""
        self._added.append(blocks)
        self._keep_ahead(blocks)

    def add_behind(self, blocks: pl.DataFrame) -> None:
        """Add partials of rows behind, by SLICE, key, PASSED, CLOSED and in a batch SEGMENT.

        No window that they are behind shows them until the next ``settle``.
        """
        self._touched.append(blocks)
        if SEGMENT in blocks.columns:
            by = (SLICE, *self.key, PASSED, CLOSED)
            blocks = self.aggregation.combine([blocks.drop(SEGMENT)], by)
        self._added.append(blocks)
        self._unsettled.append(blocks)
        for start in blocks[SLICE].unique().to_list():
            self._slice(start)

    @property
    def touched(self) -> list[pl.DataFrame]:
        """Return the partials of rows behind that were added since the last publication."""
        return self._touched

    def settle(self) -> None:
        """End a publication: the new rows behind become part of their windows."""
        for blocks in self._unsettled:
            self._keep_behind(blocks)
        self._touched, self._unsettled = [], []

    def due(self, after_ms: int, until_ms: int) -> list[int]:
        """Return the ends in (after_ms, until_ms] of windows that hold a row, in order."""
        low = bisect_right(self._starts, after_ms - self.windows.longest_ms)
        starts = np.array(self._starts[low : bisect_left(self._starts, until_ms)], np.int64)
        if not starts.size:
            return []
        ends = self.windows.ends_of(starts)
        inside = (ends > starts[:, None]) & (ends > max(after_ms, NEVER_MS)) & (ends <= until_ms)
        due: list[int] = np.unique(ends[inside]).tolist()
        return due

    def portions(self, ends: list[int], times: Numbers | int = 1) -> list[list[int]]:
        """Split windows, by their sorted ends, into portions of about _PORTION_BYTES.

        A block is read once for every window that it is in.  If windows overlap and many are due,
        the copies are many times the size of the state.  ``times``: how often each window is read.
        """
        if len(ends) < 2:
            return [ends] if ends else []
        sizes_bytes = self._sizes_bytes(np.array(ends, np.int64)) * times
        portion = np.add.accumulate(sizes_bytes) // _PORTION_BYTES
        bounds = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(ends)]
        return [ends[low:high] for low, high in pairwise(bounds)]

    def _sizes_bytes(self, end_of: Numbers) -> Numbers:
        """Return the approximate size of the blocks of windows, by their sorted ends, bytes."""
        start_of = self.windows.first_slice(end_of)
        low = bisect_left(self._starts, int(start_of.min()))
        starts = self._starts[low : bisect_left(self._starts, int(end_of[-1]))]
        slices = [self._slices[start] for start in starts]
        held = [total_bytes((*part.ahead, *part.behind)) for part in slices]
        until = np.add.accumulate([0, *held])
        buffered = self._ahead.sizes_bytes(start_of, end_of)
        buffered += self._behind.sizes_bytes(start_of, end_of)
        begin, end = np.searchsorted(starts, start_of), np.searchsorted(starts, end_of)
        sizes: Numbers = until[end] - until[begin] + buffered
        return sizes

    def on_time(self, ends: list[int]) -> list[pl.DataFrame]:
        """Return the partials of the rows that were on time for each window, with its END.

        Rows that are behind another window are among them before they are settled.
        """
        on_time = pl.col(PASSED) < pl.col(END)
        new = self.counting(self._unsettled)
        asked = (part.filter(on_time & pl.col(END).is_in(ends)).drop(PASSED) for part in new)
        return [*self._blocks(ends, on_time), *asked]

    def accepted(self, ends: list[int]) -> list[pl.DataFrame]:
        """Return the partials of all rows that count in each window, with its END."""
        return self._blocks(ends, pl.col(CLOSED) < pl.col(END))

    def behind(self, ends: list[int]) -> list[pl.DataFrame]:
        """Return the partials of the rows that were behind each window, with its END."""
        behind = pl.col(END).is_between(CLOSED, PASSED, closed="right")
        blocks = self._of_windows(ends, lambda part: part.behind, self._behind)
        found = [unmarked(block.filter(behind)) for block in blocks]
        return [block for block in found if not block.is_empty()]

    def counting(self, behind: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield partials of rows behind for each window in which they count, with END."""
        for block in behind:
            start = block[SLICE].to_numpy()
            lower = np.maximum(block[CLOSED].to_numpy(), start)
            for end_ms in self.windows.ends_of(start).T:
                counts = lower < end_ms
                if counts.any():
                    ended = block.drop(SLICE, CLOSED).with_columns(pl.Series(END, end_ms))
                    yield ended.filter(pl.Series(counts))

    def _blocks(self, ends: list[int], behind: pl.Expr) -> list[pl.DataFrame]:
        ahead = self._of_windows(ends, lambda part: part.ahead, self._ahead)
        marked = self._of_windows(ends, lambda part: part.behind, self._behind)
        return [*ahead, *(unmarked(block.filter(behind)) for block in marked)]

    def _of_windows(
        self, ends: list[int], blocks_of: Callable[[TimeSlice], list[Block]], buffer: SliceBuffer
    ) -> list[pl.DataFrame]:
        """Return blocks of windows as frames with an END column."""
        blocks: list[pl.DataFrame] = []
        counts = []
        end_of = np.array(ends, np.int64)
        starts = self.windows.first_slice(end_of)
        buffered = buffer.within(starts, end_of)
        for start_ms, end_ms in zip(starts.tolist(), ends, strict=True):
            low, high = bisect_left(self._starts, start_ms), bisect_left(self._starts, end_ms)
            found = [b for start in self._starts[low:high] for b in blocks_of(self._slices[start])]
            blocks += frames_of(found)
            counts.append(sum(block.height for block in found))
        if not blocks:
            return buffered
        ended = pl.Series(END, np.repeat(ends, counts), pl.Int64)
        return [*buffered, stacked(blocks).hstack([ended])]

    def _keep_ahead(self, blocks: pl.DataFrame) -> None:
        self._keep(blocks, self._ahead, lambda part: part.ahead, self.key)

    def _keep_behind(self, blocks: pl.DataFrame) -> None:
        self._keep(blocks, self._behind, lambda part: part.behind, (*self.key, PASSED, CLOSED))

    def _keep(
        self,
        blocks: pl.DataFrame,
        buffer: SliceBuffer,
        kept_in: Callable[[TimeSlice], list[Block]],
        by: tuple[str, ...],
    ) -> None:
        """Add blocks to their time slices, or to the buffer; move part of a full buffer."""
        if blocks[SLICE].n_unique() > _FEW:
            starts = buffer.add(blocks)
            for start in starts[starts > self._last_purged].tolist():
                self._slice(start)
            waited = buffer.take_some(self._last_purged) if buffer.full else []
            blocks = self.aggregation.combine(waited, (SLICE, *by)) if waited else blocks.clear()
        for start, block in self._by_slice(blocks):
            self._append(kept_in(self._slice(start)), start, block, by)

    def _append(
        self, kept: list[Block], start: int, block: pl.DataFrame, by: tuple[str, ...]
    ) -> None:
        """Add a block to those of a time slice; merge blocks so that they stay few."""

        def stored(block: pl.DataFrame) -> Block:
            return self._store.put(start + self.windows.longest_ms, block)

        kept.append(stored(block))
        merge_newest(kept, _MANY, lambda newest: stored(self.aggregation.combine(newest, by)))

    def _by_slice(self, blocks: pl.DataFrame) -> Iterable[tuple[int, pl.DataFrame]]:
        if blocks[SLICE].n_unique() == 1:
            return [(int(blocks[SLICE][0]), without(blocks, SLICE))]
        parts = blocks.partition_by(SLICE, as_dict=True, include_key=False)
        return ((start, part) for (start,), part in parts.items())

    def _slice(self, start: int) -> TimeSlice:
        found = self._slices.get(start)
        if found is None:
            found = self._slices[start] = TimeSlice()
            insort(self._starts, start)
        return found

    def changes(self) -> Changes:
        """Return the blocks added since the last call, without those purged since.

        Merging blocks is no change.
        """
        added, self._added = self._added, []
        # Under lag most windows open and close between two calls: this saves most bytes.
        return self._framed([block for each in added if (block := self._unpurged(each)).height])

    def _unpurged(self, blocks: pl.DataFrame) -> pl.DataFrame:
        starts = blocks[SLICE].to_numpy()
        if starts.min(initial=FOREVER_MS) > self._last_purged:
            return blocks
        return blocks.filter(pl.col(SLICE) > self._last_purged)

    def snapshot(self) -> Iterator[Changes]:
        """Return all blocks."""
        held = [
            (start, (*part.ahead, *part.behind)) for start, part in sorted(self._slices.items())
        ]
        blocks = (
            block.with_columns(pl.lit(start, pl.Int64).alias(SLICE))
            for start, found in held
            for block in frames_of(found)
        )
        return map(self._framed, in_pieces(chain(blocks, self._waiting())))

    def _waiting(self) -> Iterator[pl.DataFrame]:
        buffers = (self._ahead, self._behind)
        return chain.from_iterable([buffer.after(self._last_purged) for buffer in buffers])

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        waiting_bytes = sum(int(block.estimated_size()) for block in self._waiting())
        held = (block for part in self._slices.values() for block in (*part.ahead, *part.behind))
        return total_bytes(held) + waiting_bytes

    def _framed(self, blocks: list[pl.DataFrame]) -> Changes:
        if not blocks:
            return {}
        return {BLOCKS: stacked([b if PASSED in b.columns else _as_ahead(b) for b in blocks])}

    def open_windows(self) -> int:
        """Return the number of windows that hold a row and accept more."""
        return sum(each.begin_ms.size for each in self.open_bounds())

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of windows that hold a row and accept more."""
        starts = np.array(self._starts, np.int64)
        return [aligned_bounds(self.windows, starts, self._closed_ms)]

    def apply(self, changes: Changes) -> None:
        """Add blocks; no window shows those that purging would drop."""
        blocks = changes.get(BLOCKS)
        if blocks is None:
            return
        ahead = pl.col(PASSED) == NEVER_MS
        self._keep_ahead(unmarked(blocks.filter(ahead)))
        self._keep_behind(blocks.filter(~ahead))

    def purge(self, clock_ms: int) -> None:
        """Drop the time slices whose last window no row can reach."""
        starts = np.array(self._starts, np.int64)
        closed_ms = clock_ms - self.allowed_lateness_ms
        self._closed_ms = max(self._closed_ms, closed_ms)
        count = int(np.count_nonzero(self.windows.last_end(starts) <= closed_ms))
        if count:
            self._last_purged = max(self._last_purged, self._starts[count - 1])
            self._ahead.drop_until(self._last_purged)
            self._behind.drop_until(self._last_purged)
        for start in self._starts[:count]:
            del self._slices[start]
        del self._starts[:count]

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert self._starts == sorted(self._slices), "time slices and their order differ"
        waiting = {start for block in self._waiting() for start in block[SLICE].unique()}
        assert waiting <= self._slices.keys(), "time slices that wait are not known"
        for start, part in self._slices.items():
            assert part.ahead or part.behind or start in waiting, f"time slice {start} is empty"
            for block in frames_of(part.behind):
                assert (block[CLOSED] <= block[PASSED]).all(), f"slice {start}: closed not passed"


def _as_ahead(blocks: pl.DataFrame) -> pl.DataFrame:
    """Return blocks of rows that are behind no window, with the marks that say so."""
    marks = [repeated_number(mark, NEVER_MS, blocks.height) for mark in (PASSED, CLOSED)]
    return blocks.hstack(marks)


def unmarked(block: pl.DataFrame) -> pl.DataFrame:
    """Return partials without the marks of rows behind."""
    return without(block, PASSED, CLOSED)
