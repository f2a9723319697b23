"""Window specifications: frozen values that check their parameters.

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
"""Maximum number of windows that contain one row; each of them publishes panes."""


LONGEST_WINDOW_MS = 365_000 * 86_400_000
"""Maximum length of a window, 1,000 years: bounds of windows stay within the years 0001 to 9999."""


def not_too_long(ms: int, what: str) -> int:
    """Return a time in ms that is not longer than the longest window; ``what`` begins the error."""
    if abs(ms) > LONGEST_WINDOW_MS:
        raise PipelineError(
            f"{what}: {duration_text(ms)} is longer than {LONGEST_WINDOW_MS // 86_400_000:,} days"
        )
    return ms


class AlignedWindows(Protocol):
    """Windows with the same bounds for all keys, made of whole time slices that windows share.

    All methods take arrays of times in ms, also times far outside the range of event times.
    """

    @property
    def label(self) -> str:
        """The windows in plans, as a user writes them."""

    @property
    def longest_ms(self) -> int:
        """The maximum length of a window."""

    def slice_start(self, at_ms: Times, /) -> Times:
        """Return the start of the time slice that contains each time."""

    def end_until(self, at_ms: Times, /) -> Times:
        """Return the last window end at or before each time."""

    def last_end(self, at_ms: Times, /) -> Times:
        """Return the end of the last window that contains each time."""

    def ends_of(self, slice_start_ms: Times, /) -> Times:
        """Return the ends of the windows that contain time slices: a row per slice, last end first.

        All rows have the same length; ends at or before the slice's start are padding.
        """

    def start_of(self, end_ms: Times, /) -> Times:
        """Return the starts of windows, given their ends."""

    def first_slice(self, end_ms: Times, /) -> Times:
        """Return the starts of the first time slices of windows, given their ends."""


@dataclass(frozen=True, slots=True)
class Hopping:
    """Aligned windows of ``size_ms`` that start every ``slide_ms``; tumbling where both are equal.

    Starts are ``offset_ms + n * slide_ms`` for every integer n.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        """Raise PipelineError if size, slide or offset is out of range."""
        if self.size_ms <= 0:
            raise PipelineError(f"window size must be positive, got {self.size_ms} ms")
        if not 0 < self.slide_ms <= self.size_ms:
            raise PipelineError(
                f"window slide must be positive and at most the size of {self.size_ms} ms, "
                f"got {self.slide_ms} ms"
            )
        if self.size_ms > MOST_WINDOWS * self.slide_ms:
            raise PipelineError(
                f"a window of {duration_text(self.size_ms)} every {duration_text(self.slide_ms)} "
                "puts each row in "
                f"{self.size_ms // self.slide_ms} windows, more than {MOST_WINDOWS}"
            )
        if abs(self.offset_ms) >= self.slide_ms:
            raise PipelineError(
                f"window offset must be shorter than the slide of {self.slide_ms} ms, "
                f"got {self.offset_ms} ms"
            )

    def __repr__(self) -> str:
        size, slide = duration_text(self.size_ms), duration_text(self.slide_ms)
        offset = f', offset="{duration_text(self.offset_ms)}"' if self.offset_ms else ""
        if self.slide_ms == self.size_ms:
            return f'tumbling("{size}"{offset})'
        return f'hopping("{size}", "{slide}"{offset})'

    @property
    def label(self) -> str:
        """The windows in plans, without quotes."""
        offset = f", offset {duration_text(self.offset_ms)}" if self.offset_ms else ""
        if self.slide_ms == self.size_ms:
            return f"tumbling({duration_text(self.size_ms)}{offset})"
        return f"hopping({duration_text(self.size_ms)}, {duration_text(self.slide_ms)}{offset})"

    @property
    def slice_ms(self) -> int:
        """The width of a time slice: no window begins or ends inside a slice."""
        return gcd(self.size_ms, self.slide_ms)

    @property
    def longest_ms(self) -> int:
        """The length of all windows."""
        return self.size_ms

    def slice_start(self, at_ms: Times) -> Times:
        """Return the start of the time slice that contains each time."""
        return floor_to_grid(at_ms, self.slice_ms, self.offset_ms)

    def end_until(self, at_ms: Times) -> Times:
        """Return the last window end at or before each time."""
        return floor_to_grid(at_ms, self.slide_ms, self.offset_ms + self.size_ms)

    def first_end(self, at_ms: Times) -> Times:
        """Return the end of the first window that contains each time."""
        return self.end_until(at_ms) + self.slide_ms

    def last_end(self, at_ms: Times) -> Times:
        """Return the end of the last window that contains each time."""
        return floor_to_grid(at_ms, self.slide_ms, self.offset_ms) + self.size_ms

    def ends_of(self, slice_start_ms: Times) -> Times:
        """Return the ends of the windows that contain time slices: a row per slice, last first."""
        most = -(-self.size_ms // self.slide_ms)
        return self.last_end(slice_start_ms)[:, None] - self.slide_ms * np.arange(most)

    def start_of(self, end_ms: Times) -> Times:
        """Return the starts of windows, given their ends."""
        return end_ms - self.size_ms

    def first_slice(self, end_ms: Times) -> Times:
        """Return the starts of the first time slices of windows: their starts."""
        return self.start_of(end_ms)


@dataclass(frozen=True, slots=True)
class Same:
    """The windows ``of`` whose results the rows are: each row is in its own window only.

    Event time of such a row is the end of its window - 1.
    """

    of: Hopping

    def __repr__(self) -> str:
        return "same()"

    @property
    def label(self) -> str:
        """The windows in plans, without quotes."""
        return f"same({self.of.label})"

    @property
    def longest_ms(self) -> int:
        """The length of all windows."""
        return self.of.size_ms

    def slice_start(self, at_ms: Times) -> Times:
        """Return the window end before each time: a slice holds the rows of one window."""
        return self.of.end_until(at_ms)

    def end_until(self, at_ms: Times) -> Times:
        """Return the last window end at or before each time."""
        return self.of.end_until(at_ms)

    def last_end(self, at_ms: Times) -> Times:
        """Return the end of the window of each row."""
        return self.of.first_end(at_ms)

    def ends_of(self, slice_start_ms: Times) -> Times:
        """Return the end of each slice's window: one column."""
        return self.last_end(slice_start_ms)[:, None]

    def start_of(self, end_ms: Times) -> Times:
        """Return the starts of windows, given their ends."""
        return self.of.start_of(end_ms)

    def first_slice(self, end_ms: Times) -> Times:
        """Return the starts of the slices of windows: the window ends before theirs."""
        return end_ms - self.of.slide_ms


@dataclass(frozen=True, slots=True)
class Session:
    """Sessions: events of a key less than ``gap_ms`` apart; a session ends at last event + gap.

    With ``column``, that column holds each row's own gap (dynamic gap); ``gap_ms`` is the maximum.
    """

    gap_ms: int
    column: str | None = None

    def __post_init__(self) -> None:
        """Raise PipelineError if the gap is not positive."""
        if self.gap_ms <= 0:
            raise PipelineError(f"session gap must be positive, got {self.gap_ms} ms")

    def __repr__(self) -> str:
        if self.column is None:
            return f'session("{duration_text(self.gap_ms)}")'
        return f'session("{self.column}", max_gap="{duration_text(self.gap_ms)}")'

    @property
    def label(self) -> str:
        """The windows in plans, without quotes."""
        if self.column is None:
            return f"session({duration_text(self.gap_ms)})"
        return f"session({self.column}, max {duration_text(self.gap_ms)})"

    @property
    def longest_ms(self) -> int:
        """The maximum time from a session's last row to its end."""
        return self.gap_ms

    def ends(self, rows: pl.DataFrame) -> Times:
        """Return the end of each row's own session: its event time + gap."""
        gap_ms = self.gap_ms if self.column is None else rows[self.column].to_numpy()
        ends: Times = rows[EVENT_TIME].to_numpy() + gap_ms
        return ends


@dataclass(frozen=True, slots=True)
class Sliding:
    """Sliding windows: for a row at t of a key, ``[t - reach, t]`` and ``[t + 1, t + 1 + reach]``.

    Both ends are included, so a window is one millisecond longer than ``reach_ms``.
    """

    reach_ms: int

    def __post_init__(self) -> None:
        """Raise PipelineError if the size is not positive."""
        if self.reach_ms <= 0:
            raise PipelineError(f"sliding window size must be positive, got {self.reach_ms} ms")

    def __repr__(self) -> str:
        return f'sliding("{duration_text(self.reach_ms)}")'

    @property
    def label(self) -> str:
        """The windows in plans, without quotes."""
        return f"sliding({duration_text(self.reach_ms)})"

    @property
    def longest_ms(self) -> int:
        """The length of all windows."""
        return self.reach_ms + 1


def floor_to_grid(at_ms: Times, step_ms: int, origin_ms: int) -> Times:
    """Return the last point of ``origin_ms + n * step_ms`` at or before each time.

    NumPy floors integer division, so times before 1970 need no special case.
    """
    origin_ms %= step_ms
    floored: Times = (at_ms - origin_ms) // step_ms * step_ms + origin_ms
    return floored
