"""Blocks of many slices each, as segments brought them: cut up later, with those of other segments.

Rows that fall into a thousand open windows would else cost a thousand small frames per segment.
Once a buffer is full, each segment cuts up some of the slices, in turn; so none has to do all.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.state.keyed_lines import Numbers, ranges
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.pane import END

SLICE = "@slice"  # start of the slice, ms

_MANY = 16
"""Blocks, and ..."""

_LARGE = 1 << 18
"""... lines after which a buffer is full."""

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Span:
    """A block in order of slice: the slices' starts, and where their lines begin, then the end."""

    block: pl.DataFrame
    starts: Numbers
    bounds: Numbers

    @classmethod
    def of(cls, block: pl.DataFrame) -> "_Span":
        ordered = block.sort(SLICE)
        starts, first = np.unique(ordered[SLICE].to_numpy(), return_index=True)
        return cls(ordered, starts, np.append(first, ordered.height))

    def after(self, start_ms: int) -> pl.DataFrame:
        """Return the lines of the slices that start after ``start_ms``."""
        return self.block[int(self.bounds[np.searchsorted(self.starts, start_ms, "right")]) :]

    def parted(self, first_ms: int, last_ms: int) -> tuple[pl.DataFrame, list["_Span"]]:
        """Return the lines of slices that start from ``first_ms`` to ``last_ms``, and the rest."""
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
        """Return about how many bytes the lines of slices within each window have."""
        lines = self._bound(end_ms) - self._bound(begin_ms)
        size_bytes: Numbers = lines * int(self.block.estimated_size()) // self.block.height
        return size_bytes

    def _bound(self, start_ms: Numbers) -> Numbers:
        bound: Numbers = self.bounds[np.searchsorted(self.starts, start_ms)]
        return bound

    def within(self, begin_ms: Numbers, end_ms: Numbers) -> pl.DataFrame:
        """Return the lines of slices within each window, with its END."""
        low = self._bound(begin_ms)
        count = self._bound(end_ms) - low
        lines = self.block[ranges(low, count)].drop(SLICE)
        return lines.with_columns(pl.Series(END, np.repeat(end_ms, count)))


class SliceBuffer:
    """Blocks by SLICE that were not cut up yet."""

    def __init__(self) -> None:
        """Start empty."""
        self._spans: list[_Span] = []
        self._taken_ms = NEVER_MS  # start of the last slice whose turn it was

    def add(self, block: pl.DataFrame) -> Numbers:
        """Add a block; return the starts of its slices."""
        self._spans.append(_Span.of(block))
        return self._spans[-1].starts

    @property
    def full(self) -> bool:
        """Whether it is time to cut some slices up."""
        lines = [span.block.height for span in self._spans]
        return len(lines) >= _MANY or sum(lines) > _LARGE

    def after(self, start_ms: int) -> Iterator[pl.DataFrame]:
        """Return the lines of the slices that start after ``start_ms``, as they are now."""
        spans = list(self._spans)
        cut = (
            s.block[int(s.bounds[np.searchsorted(s.starts, start_ms, "right")]) :] for s in spans
        )
        return (block for block in cut if block.height)

    def take_some(self, start_ms: int) -> list[pl.DataFrame]:
        """Remove the lines of the slices whose turn it is, of those that start after ``start_ms``.

        They are a share of all slices, such that the buffer holds no more than before the last
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
        """Drop the blocks all of whose slices start up to ``start_ms``."""
        self._spans = [span for span in self._spans if span.starts[-1] > start_ms]

    def sizes_bytes(self, begin_ms: Numbers, end_ms: Numbers) -> Numbers:
        """Return about how many bytes the lines of slices within each window have."""
        sizes = np.zeros(end_ms.size, np.int64)
        for span in self._spans:
            sizes += span.size_bytes(begin_ms, end_ms)
        return sizes

    def within(self, begin_ms: Numbers, end_ms: Numbers) -> list[pl.DataFrame]:
        """Return the lines of slices within each window, with its END."""
        found = (span.within(begin_ms, end_ms) for span in self._spans)
        return [lines for lines in found if lines.height]
