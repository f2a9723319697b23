"""Window specifications: frozen values that validate themselves.

Windows are half open, ``[start, end)``, in int64 milliseconds UTC, also before 1970.
"""

from dataclasses import dataclass
from math import gcd
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.time.duration import duration_text
from tidemark.core.time.segment import EVENT_TIME
from tidemark.errors import PipelineError

Times = npt.NDArray[np.int64]

MOST_WINDOWS = 10_000
"""Windows a single row may be in: each is a pane to publish."""


class AlignedWindows(Protocol):
    """Windows whose bounds are the same for all keys, made of whole slices that they share.

    All methods work on arrays of times, for times far outside of any event's too.
    """

    @property
    def label(self) -> str:
        """The windows as a user writes them."""

    @property
    def longest_ms(self) -> int:
        """No window is longer than this."""

    def slice_start(self, at_ms: Times, /) -> Times:
        """Return the start of the slice that each time is in."""

    def end_until(self, at_ms: Times, /) -> Times:
        """Return the last window end at or before each time."""

    def last_end(self, at_ms: Times, /) -> Times:
        """Return the end of the last window that each time is in."""

    def ends_of(self, slice_start_ms: Times, /) -> Times:
        """Return the ends of the windows of slices: a line per slice, last end first.

        Lines are equally long; ends at or before the slice's start fill them up.
        """

    def start_of(self, end_ms: Times, /) -> Times:
        """Return the starts of windows by their ends."""


@dataclass(frozen=True, slots=True)
class Hopping:
    """Aligned windows of ``size_ms`` that start every ``slide_ms``; tumbling where both are equal.

    Starts are ``offset_ms + n * slide_ms`` for every integer n.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no window."""
        if self.size_ms <= 0:
            raise PipelineError(f"window size must be positive, got {self.size_ms} ms")
        if not 0 < self.slide_ms <= self.size_ms:
            raise PipelineError(
                f"window slide must be positive and at most the size of {self.size_ms} ms, "
                f"got {self.slide_ms} ms"
            )
        if self.size_ms > MOST_WINDOWS * self.slide_ms:
            raise PipelineError(
                f"a window of {self.size_ms} ms every {self.slide_ms} ms puts each row in "
                f"{self.size_ms // self.slide_ms} windows, more than {MOST_WINDOWS}"
            )
        if abs(self.offset_ms) >= self.slide_ms:
            raise PipelineError(
                f"window offset must be shorter than the slide of {self.slide_ms} ms, "
                f"got {self.offset_ms} ms"
            )

    @property
    def label(self) -> str:
        """The windows as a user writes them."""
        offset = f", offset {duration_text(self.offset_ms)}" if self.offset_ms else ""
        if self.slide_ms == self.size_ms:
            return f"tumbling({duration_text(self.size_ms)}{offset})"
        return f"hopping({duration_text(self.size_ms)}, {duration_text(self.slide_ms)}{offset})"

    @property
    def slice_ms(self) -> int:
        """Width of the slices that all windows are made of: no boundary falls inside one."""
        return gcd(self.size_ms, self.slide_ms)

    @property
    def longest_ms(self) -> int:
        """All windows are equally long."""
        return self.size_ms

    def slice_start(self, at_ms: Times) -> Times:
        """Return the start of the slice that each time is in."""
        return floor_to_grid(at_ms, self.slice_ms, self.offset_ms)

    def end_until(self, at_ms: Times) -> Times:
        """Return the last window end at or before each time."""
        return floor_to_grid(at_ms, self.slide_ms, self.offset_ms + self.size_ms)

    def first_end(self, at_ms: Times) -> Times:
        """Return the end of the first window that each time is in."""
        return self.end_until(at_ms) + self.slide_ms

    def last_end(self, at_ms: Times) -> Times:
        """Return the end of the last window that each time is in."""
        return floor_to_grid(at_ms, self.slide_ms, self.offset_ms) + self.size_ms

    def ends_of(self, slice_start_ms: Times) -> Times:
        """Return the ends of the windows of slices: a line per slice, last end first."""
        most = -(-self.size_ms // self.slide_ms)
        return self.last_end(slice_start_ms)[:, None] - self.slide_ms * np.arange(most)

    def start_of(self, end_ms: Times) -> Times:
        """Return the starts of windows by their ends."""
        return end_ms - self.size_ms


@dataclass(frozen=True, slots=True)
class Session:
    """Events of a key less than ``gap_ms`` apart; end = last event + gap.

    Where ``column`` is given it holds each row's own gap, and ``gap_ms`` is the longest.
    """

    gap_ms: int
    column: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no gap."""
        if self.gap_ms <= 0:
            raise PipelineError(f"session gap must be positive, got {self.gap_ms} ms")

    @property
    def label(self) -> str:
        """The windows as a user writes them."""
        if self.column is None:
            return f"session({duration_text(self.gap_ms)})"
        return f"session({self.column}, max {duration_text(self.gap_ms)})"

    @property
    def longest_ms(self) -> int:
        """How long after a row its session may end, where no other follows."""
        return self.gap_ms

    def ends(self, rows: pl.DataFrame) -> Times:
        """Return the end of each row's own window: its time + gap."""
        gap_ms = self.gap_ms if self.column is None else rows[self.column].to_numpy()
        ends: Times = rows[EVENT_TIME].to_numpy() + gap_ms
        return ends


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows that reach back ``reach_ms`` from each row of a key, and forward from just after it.

    Both ends are included, so a window is one millisecond longer than its reach.
    """

    reach_ms: int

    def __post_init__(self) -> None:
        """Refuse what is no window."""
        if self.reach_ms <= 0:
            raise PipelineError(f"sliding window size must be positive, got {self.reach_ms} ms")

    @property
    def label(self) -> str:
        """The windows as a user writes them."""
        return f"sliding({duration_text(self.reach_ms)})"

    @property
    def longest_ms(self) -> int:
        """All windows are equally long."""
        return self.reach_ms + 1


def floor_to_grid(at_ms: Times, step_ms: int, origin_ms: int) -> Times:
    """Return the last point of ``origin_ms + n * step_ms`` at or before each time.

    Numpy divides integers towards minus infinity, so times before 1970 need no case of their own.
    """
    origin_ms %= step_ms
    floored: Times = (at_ms - origin_ms) // step_ms * step_ms + origin_ms
    return floored
