"""Keyed state of sliding windows: partial aggregates by key and instant, in blocks by time slice.

See docs/semantics.md, "Sliding".  A *line* is the rows of one key with one event time and one W:
the key, EVENT_TIME, WATERMARK (the W of the rows, but at least their time) and partials.  Lines
whose W is their own time are *ahead*: on time for every window that contains them.  The others are
*behind*.  A *time slice* is an interval of event times whose lines lie together.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.operator import Changes
from tidemark.core.state.block_store import IN_MEMORY, Block, BlockStore
from tidemark.core.state.blocks import frames_of, in_pieces, merge_newest, stacked, total_bytes
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.windows.open_bounds import OpenBounds
from tidemark.core.windows.window import Sliding, floor_to_grid

LINES = "lines"
"""Name of the only frame in the state's changes; changelogs store it.

The frame has the key columns, EVENT_TIME and WATERMARK (Int64, ms), and the partials of the
aggregates with ROWS.
"""

_MANY = 32
"""Blocks of a time slice that are merged into fewer, so that their number stays bounded."""

_SLICES = 64
"""Time slices in the allowed lateness, if that is much longer than the windows."""

_SLICE = "@slice"


class SlidingState:
    """Lines by time slice, and the changes since the last call of ``changes``."""

    def __init__(
        self,
        windows: Sliding,
        aggregation: Aggregation,
        key: tuple[str, ...],
        allowed_lateness_ms: int,
        store: BlockStore = IN_MEMORY,
    ) -> None:
        """Start empty; ``store``: where lines lie."""
        self.aggregation = aggregation
        self.by = (*key, EVENT_TIME, WATERMARK)
        self._longest_ms = windows.longest_ms
        self._slice_ms = max(windows.longest_ms, allowed_lateness_ms // _SLICES)
        # A line is read until the window just after it accepts no more rows.
        self._kept_ms = windows.longest_ms + 1 + allowed_lateness_ms
        self._store = store
        self._slices: dict[int, list[Block]] = {}
        self._starts: list[int] = []
        self._added: list[pl.DataFrame] = []
        self._touched: list[pl.DataFrame] = []
        self._purged_ms = NEVER_MS

    def add(self, lines: pl.DataFrame) -> None:
        """Add the lines of a segment's rows."""
        self._added.append(lines)
        behind = lines.filter(pl.col(WATERMARK) > pl.col(EVENT_TIME))
        self._touched.append(behind)
        self._keep(lines)

    @property
    def touched(self) -> list[pl.DataFrame]:
        """Return the lines behind that were added since the last publication."""
        return self._touched

    def settle(self) -> None:
        """End a publication: forget the lines that were touched."""
        self._touched = []

    def between(self, first_ms: int, last_ms: int) -> list[pl.DataFrame]:
        """Return the lines with event times in [first_ms, last_ms]."""
        low = bisect_right(self._starts, first_ms - self._slice_ms)
        high = bisect_right(self._starts, last_ms)
        inside = pl.col(EVENT_TIME).is_between(max(first_ms, NEVER_MS), last_ms)
        blocks = (block for start in self._starts[low:high] for block in self._slices[start])
        found = (block.frame().filter(inside) for block in blocks)
        return [block for block in found if block.height]

    def _keep(self, lines: pl.DataFrame) -> None:
        starts = floor_to_grid(lines[EVENT_TIME].to_numpy(), self._slice_ms, 0)
        sliced = lines.with_columns(pl.Series(_SLICE, starts))
        for (start,), block in sliced.partition_by(_SLICE, as_dict=True, include_key=False).items():
            blocks = self._slices.get(start)
            if blocks is None:
                blocks = self._slices[start] = []
                insort(self._starts, start)
            blocks.append(self._stored(start, block))
            merge_newest(blocks, _MANY, partial(self._merged, start))

    def _merged(self, start: int, blocks: list[pl.DataFrame]) -> Block:
        return self._stored(start, self.aggregation.combine(blocks, self.by))

    def _stored(self, start: int, lines: pl.DataFrame) -> Block:
        return self._store.put(start + self._slice_ms + self._kept_ms, lines)

    def changes(self) -> Changes:
        """Return the lines added since the last call, without those purged since."""
        added, self._added = self._added, []
        kept = (block.filter(pl.col(EVENT_TIME) >= self._purged_ms) for block in added)
        return _framed([block for block in kept if block.height])

    def snapshot(self) -> Iterator[Changes]:
        """Return all lines."""
        held = [block for start in self._starts for block in self._slices[start]]
        return map(_framed, in_pieces(frames_of(held)))

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return total_bytes(block for blocks in self._slices.values() for block in blocks)

    def open_windows(self) -> int:
        """Return the number of lines: a window ends with each."""
        return sum(block.height for blocks in self._slices.values() for block in blocks)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of the windows that end with lines.

        All lines of a time slice count at its start.
        """
        ends_ms = np.array(self._starts, np.int64) + 1
        counts = [sum(block.height for block in self._slices[start]) for start in self._starts]
        begin_ms = ends_ms - self._longest_ms
        held = np.array(counts, np.int64)
        return [OpenBounds(begin_ms, lambda place: int(ends_ms[place]), held)]

    def apply(self, changes: Changes) -> None:
        """Add lines; no row sees those that purging would drop."""
        if LINES in changes:
            self._keep(changes[LINES])

    def purge(self, clock_ms: int) -> None:
        """Drop the time slices whose lines share no window with later rows."""
        gone = bisect_left(self._starts, clock_ms - self._kept_ms - self._slice_ms + 2)
        if gone:
            self._purged_ms = self._starts[gone - 1] + self._slice_ms
        for start in self._starts[:gone]:
            del self._slices[start]
        del self._starts[:gone]

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self._touched, "rows behind were not published"
        assert self._starts == sorted(self._slices), "time slices and their order differ"
        for start, blocks in self._slices.items():
            assert blocks, f"time slice {start} is empty"
            for block in frames_of(blocks):
                at_ms = block[EVENT_TIME]
                assert (at_ms >= start).all(), f"time slice {start}: a line before it"
                assert (at_ms < start + self._slice_ms).all(), (
                    f"time slice {start}: a line after it"
                )
                assert (block[WATERMARK] >= at_ms).all(), f"time slice {start}: W before the line"


def _framed(blocks: list[pl.DataFrame]) -> Changes:
    return {LINES: stacked(blocks)} if blocks else {}
