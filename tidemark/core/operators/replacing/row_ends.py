"""The ends of the windows that a row may be in, for windows of all kinds."""

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Mask, Numbers
from tidemark.core.time.segment import EVENT_TIME, FOREVER_MS
from tidemark.core.windows.open_bounds import OpenBounds, aligned_bounds
from tidemark.core.windows.window import AlignedWindows, Session, Sliding

RowWindows = AlignedWindows | Sliding | Session

OWN_END = "@end"
"""Int64 column of lines, ms: the last end of the windows that the row alone makes."""


def last_ends(windows: RowWindows, rows: pl.DataFrame) -> Numbers:
    """Return the last end of the windows that each row alone makes."""
    if isinstance(windows, Session):
        return windows.ends(rows)
    at_ms = rows[EVENT_TIME].to_numpy()
    if isinstance(windows, Sliding):
        return at_ms + windows.longest_ms + 1
    return windows.last_end(at_ms)


def first_ends(windows: RowWindows, at_ms: Numbers) -> Numbers:
    """Return the first end of a window of each row; sessions end after their rows."""
    if isinstance(windows, Session | Sliding):
        return at_ms + 1
    starts_ms = windows.slice_start(at_ms)
    ends_ms = windows.ends_of(starts_ms)
    first_ms: Numbers = np.where(ends_ms > starts_ms[:, None], ends_ms, FOREVER_MS).min(axis=1)
    return first_ms


def due_between(windows: RowWindows, lines: pl.DataFrame, low_ms: int, high_ms: int) -> Mask:
    """Mark the lines one of whose windows may end in (low_ms, high_ms]; ``lines``: with OWN_END."""

    def between(ends_ms: Numbers) -> Mask:
        return (ends_ms > low_ms) & (ends_ms <= high_ms)

    ends_ms = lines[OWN_END].to_numpy()
    if isinstance(windows, Session):
        return between(ends_ms)
    at_ms = lines[EVENT_TIME].to_numpy()
    if isinstance(windows, Sliding):
        return between(at_ms + 1) | between(ends_ms)
    last_ms: Mask = windows.end_until(np.minimum(ends_ms, high_ms)) > np.maximum(at_ms, low_ms)
    return last_ms


def may_end_between(windows: RowWindows, low_ms: int, high_ms: int) -> bool:
    """Return whether any window can end in (low_ms, high_ms]."""
    if isinstance(windows, Session | Sliding):
        return low_ms < high_ms
    return bool(windows.end_until(np.array([high_ms]))[0] > low_ms)


def open_bounds(windows: RowWindows, lines: pl.DataFrame, closed_ms: int) -> OpenBounds:
    """Return the bounds of the windows of lines that end after ``closed_ms``.

    Windows that keys share count once.  Of other windows, each line is a window from its row on.
    """
    at_ms, own_ends_ms = lines[EVENT_TIME].to_numpy(), lines[OWN_END].to_numpy()
    if isinstance(windows, Session | Sliding):
        is_open = own_ends_ms > closed_ms
        ends_ms = own_ends_ms[is_open]
        return OpenBounds(at_ms[is_open], lambda place: int(ends_ms[place]))
    return aligned_bounds(windows, np.unique(windows.slice_start(at_ms)), closed_ms)
