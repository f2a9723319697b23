"""Blocks of many slices each, as segments brought them: cut up later, many at once.

Rows that fall into a thousand open windows would else cost a thousand small frames per segment.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.keyed_lines import Numbers, ranges
from tidemark.core.pane import END

SLICE = "@slice"  # start of the slice, ms

_MANY = 16
"""Blocks, and ..."""

_LARGE = 1 << 18
"""... lines after which a buffer is full."""


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

    def within(self, begin_ms: Numbers, end_ms: Numbers) -> pl.DataFrame:
        """Return the lines of slices within each window, with its END."""
        low = self.bounds[np.searchsorted(self.starts, begin_ms)]
        count = self.bounds[np.searchsorted(self.starts, end_ms)] - low
        lines = self.block[ranges(low, count)].drop(SLICE)
        return lines.with_columns(pl.Series(END, np.repeat(end_ms, count)))


class SliceBuffer:
    """Blocks by SLICE that were not cut up yet."""

    def __init__(self) -> None:
        """Start empty."""
        self._spans: list[_Span] = []

    def add(self, block: pl.DataFrame) -> Numbers:
        """Add a block; return the starts of its slices."""
        self._spans.append(_Span.of(block))
        return self._spans[-1].starts

    @property
    def full(self) -> bool:
        """Whether it is time to cut the blocks up."""
        lines = [span.block.height for span in self._spans]
        return len(lines) >= _MANY or sum(lines) > _LARGE

    def after(self, start_ms: int) -> Iterator[pl.DataFrame]:
        """Return the lines of the slices that start after ``start_ms``, as they are now."""
        spans = list(self._spans)
        cut = (
            s.block[int(s.bounds[np.searchsorted(s.starts, start_ms, "right")]) :] for s in spans
        )
        return (block for block in cut if block.height)

    def take_after(self, start_ms: int) -> list[pl.DataFrame]:
        """Remove all blocks; return their lines of the slices that start after ``start_ms``."""
        taken = list(self.after(start_ms))
        self._spans = []
        return taken

    def drop_until(self, start_ms: int) -> None:
        """Drop the blocks all of whose slices start up to ``start_ms``."""
        self._spans = [span for span in self._spans if span.starts[-1] > start_ms]

    def within(self, begin_ms: Numbers, end_ms: Numbers) -> list[pl.DataFrame]:
        """Return the lines of slices within each window, with its END."""
        found = (span.within(begin_ms, end_ms) for span in self._spans)
        return [lines for lines in found if lines.height]
