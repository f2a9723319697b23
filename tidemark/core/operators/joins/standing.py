"""Where the rows of a join stand in time: at their own times, or in windows.

A row that stands in windows is a row of each window in which it counts, at the last time of that
window.  So the rows of a window pair as rows of one time do, and all rules of joins hold for them:
a row counts in a window if its last time + allowed lateness >= W, thus if its end + allowed
lateness > W.  See docs/semantics.md, "Window joins".
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.segment import EVENT_TIME, WATERMARK
from tidemark.core.windows.window import AlignedWindows


class Places(NamedTuple):
    """Where rows stand.

    ``at_ms``: the times.  ``row``: the number of the row at each time.  ``start_ms``: the start of
    the window at each time; None if rows stand at their own times, each once and in order.
    """

    at_ms: Numbers
    row: Numbers
    start_ms: Numbers | None


class Standing(ABC):
    """Where rows stand, and so when they are late."""

    @abstractmethod
    def places(self, rows: pl.DataFrame) -> Places:
        """Return where accepted rows stand; each row somewhere."""

    @abstractmethod
    def accepted(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows that are not late."""

    @abstractmethod
    def passed(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows that stand at a time that their W has passed."""

    @abstractmethod
    def bounds(self, rows: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """Return the start and the end of what late rows have missed."""


@dataclass(frozen=True)
class AtOwnTime(Standing):
    """Rows stand at their event times."""

    allowed_lateness_ms: int

    def places(self, rows: pl.DataFrame) -> Places:
        """Return the event times."""
        return Places(rows[EVENT_TIME].to_numpy(), np.arange(rows.height), None)

    def accepted(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows that are not late."""
        limit_ms = rows[EVENT_TIME].to_numpy() + self.allowed_lateness_ms
        accepted: Mask = limit_ms >= rows[WATERMARK].to_numpy()
        return accepted

    def passed(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows with W past their event time."""
        passed: Mask = rows[WATERMARK].to_numpy() > rows[EVENT_TIME].to_numpy()
        return passed

    def bounds(self, rows: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """Return the times of rows as windows of 1 ms."""
        at_ms = rows[EVENT_TIME].to_numpy()
        return at_ms, at_ms + 1


@dataclass(frozen=True)
class InWindows(Standing):
    """Rows stand at the last times of the windows in which they count."""

    windows: AlignedWindows
    allowed_lateness_ms: int

    def places(self, rows: pl.DataFrame) -> Places:
        """Return the last times of windows, those of a row in ascending order."""
        slice_ms = self.windows.slice_start(rows[EVENT_TIME].to_numpy())
        end_ms = self.windows.ends_of(slice_ms)[:, ::-1]
        late_ms = end_ms + self.allowed_lateness_ms
        counts = (end_ms > slice_ms[:, None]) & (late_ms > rows[WATERMARK].to_numpy()[:, None])
        row, _ = np.nonzero(counts)
        ends = end_ms[counts]
        return Places(ends - 1, row, self.windows.start_of(ends))

    def accepted(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows that count in a window: those that count in their last one."""
        last_ms = self.windows.last_end(rows[EVENT_TIME].to_numpy())
        accepted: Mask = last_ms + self.allowed_lateness_ms > rows[WATERMARK].to_numpy()
        return accepted

    def passed(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows with W past the end of one of their windows."""
        at_ms = rows[EVENT_TIME].to_numpy()
        # A W before the row's time has passed none of its windows, and NEVER_MS would overflow.
        watermark_ms = np.maximum(rows[WATERMARK].to_numpy(), at_ms)
        passed: Mask = self.windows.end_until(watermark_ms) > at_ms
        return passed

    def bounds(self, rows: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """Return the bounds of the last windows."""
        end_ms = self.windows.last_end(rows[EVENT_TIME].to_numpy())
        return self.windows.start_of(end_ms), end_ms


def standing_of(windows: AlignedWindows | None, allowed_lateness_ms: int) -> Standing:
    """Return where the rows of a join stand; without windows at their own times."""
    if windows is None:
        return AtOwnTime(allowed_lateness_ms)
    return InWindows(windows, allowed_lateness_ms)
