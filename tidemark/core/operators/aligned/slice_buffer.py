"""A buffer of whole blocks, each with the rows of a segment in many time slices.

See docs/semantics.md, "Windows".  Without the buffer, rows in a thousand open windows would cost a
thousand small frames per segment.  Once the buffer is full, each segment moves some of its time
slices to the state, in turn.  So no segment has to move them all.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.state.keyed_lines import Numbers, ranges
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.pane import END

SLICE = "@slice"  # start of the time slice, ms

_MANY = 16
"""A buffer is full with this number of blocks ..."""

_LARGE = 1 << 18
"""... or with more than this number of lines."""

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Span:
    """A block in order of time slice.

    ``starts``: the starts of its time slices.  ``bounds``: the place of each one's first line, then
    the number of lines.
    """

    block: pl.DataFrame
    starts: Numbers
    bounds: Numbers

    @classmethod
    def of(cls, block: pl.DataFrame) -> "_Span":
        ordered = block.sort(SLICE)
        starts, first = np.unique(ordered[SLICE].to_numpy(), return_index=True)
        return cls(ordered, starts, np.append(first, ordered.height))

    def after(self, start_ms: int) -> pl.DataFrame:
        """Return the lines of the time slices that start after ``start_ms``."""
        return self.block[int(self.bounds[np.searchsorted(self.starts, start_ms, "right")]) :]

    def parted(self, first_ms: int, last_ms: int) -> tuple[pl.DataFrame, list["_Span"]]:
        """Return the lines of time slices from ``first_ms`` to ``last_ms``, and the rest."""
        low = int(np.searchsorted(self.starts, first_ms))
        high = int(np.searchsorted(self.starts, last_ms, "right"))
        rest = [self._part(0, low), self._part(high, self.starts.size)]
        between = self._part(low, high).block
        return between, [span for span in rest if span.starts.size]

    def _part(self, low: int, high: int) -> "_Span":
        bounds = self.bounds[low : high + 1]
        block = self.block[int(bounds[0]) : int(bounds[-1])]
        return _Span(block, self.starts[low:high], bounds - bounds[0])

    def size_bytes(self, begin_ms: Numbers, end_ms: Numbers) -> Numbers:
        """Return the approximate size of the lines within each window, bytes."""
        lines = self._bound(end_ms) - self._bound(begin_ms)
        size_bytes: Numbers = lines * int(self.block.estimated_size()) // self.block.height
        return size_bytes

    def _bound(self, start_ms: Numbers) -> Numbers:
        bound: Numbers = self.bounds[np.searchsorted(self.starts, start_ms)]
        return bound

    def within(self, begin_ms: Numbers, end_ms: Numbers) -> pl.DataFrame:
        """Return the lines within each window, with its END."""
        low = self._bound(begin_ms)
        count = self._bound(end_ms) - low
        lines = self.block[ranges(low, count)].drop(SLICE)
        return lines.with_columns(pl.Series(END, np.repeat(end_ms, count)))


class SliceBuffer:
    """Blocks with a column SLICE that are not yet divided into time slices."""

    def __init__(self) -> None:
        """Start empty."""
        self._spans: list[_Span] = []
        self._taken_ms = NEVER_MS  # start of the last time slice that was taken

    def add(self, block: pl.DataFrame) -> Numbers:
        """Add a block; return the starts of its time slices."""
        self._spans.append(_Span.of(block))
        return self._spans[-1].starts

    @property
    def full(self) -> bool:
        """Whether some time slices must be taken."""
        lines = [span.block.height for span in self._spans]
        return len(lines) >= _MANY or sum(lines) > _LARGE

    def after(self, start_ms: int) -> Iterator[pl.DataFrame]:
        """Return the lines of the time slices that start after ``start_ms``, as they are now."""
        spans = list(self._spans)
        cut = (
            s.block[int(s.bounds[np.searchsorted(s.starts, start_ms, "right")]) :] for s in spans
        )
        return (block for block in cut if block.height)

    def take_some(self, start_ms: int) -> list[pl.DataFrame]:
        """Remove and return the lines of some time slices that start after ``start_ms``, in turn.

        The share of time slices taken is such that the buffer holds no more than before the last
        block was added.
        """
        self.drop_until(start_ms)
        every = np.unique(np.concatenate([_NONE, *(span.starts for span in self._spans)]))
        every = every[every > start_ms]
        if not every.size:
            return []
        lines = sum(span.block.height for span in self._spans)
        share = max(1 / _MANY, self._spans[-1].block.height / lines)
        turn = int(np.searchsorted(every, self._taken_ms, "right")) % every.size
        first, last = every[turn], every[min(turn + int(every.size * share), every.size - 1)]
        self._taken_ms = int(last)
        parted = [span.parted(int(first), int(last)) for span in self._spans]
        self._spans = [rest for _, spans in parted for rest in spans]
        return [taken for taken, _ in parted if taken.height]

    def drop_until(self, start_ms: int) -> None:
        """Drop the blocks whose last time slice starts at or before ``start_ms``."""
        self._spans = [span for span in self._spans if span.starts[-1] > start_ms]

    def sizes_bytes(self, begin_ms: Numbers, end_ms: Numbers) -> Numbers:
        """Return the approximate size of the lines within each window, bytes."""
        sizes = np.zeros(end_ms.size, np.int64)
        for span in self._spans:
            sizes += span.size_bytes(begin_ms, end_ms)
        return sizes

    def within(self, begin_ms: Numbers, end_ms: Numbers) -> list[pl.DataFrame]:
        """Return the lines within each window, with its END."""
        found = (span.within(begin_ms, end_ms) for span in self._spans)
        return [lines for lines in found if lines.height]
