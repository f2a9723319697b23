"""Portions: the work on one segment in steps whose results have a bounded size.

A few rows may have any number of results: a list that is published at each row, overlapping
windows, empty windows.  So a task may take the rows of a segment in portions, and move time in
portions.  Portions change no result (docs/semantics.md, "Portions of a segment").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Body, Frames, Numbers, TooManyResultsError
from tidemark.core.rows.copies import own_rows
from tidemark.core.time.row_watermarks import ORDER

TARGET_BYTES = 4 * 2**20
"""The approximate size of the results of a portion."""

_FIRST_ROWS = 64
_GROWTH = 2
_MOST_ROWS = 2**15


@dataclass(frozen=True, slots=True)
class Place:
    """How much of a segment a task has processed.

    ``rows``: the number of its rows that are in the state.  ``published_ms``: the time up to which
    results are published, if that is later than the clock before the segment.
    """

    rows: int = 0
    published_ms: int | None = None


BEGIN = Place()


class RowLimit:
    """The number of rows to take at once, from the size of the results of earlier ones."""

    def __init__(self, most_rows: int = _MOST_ROWS, target_bytes: int = TARGET_BYTES) -> None:
        """Start with few rows; ``target_bytes``: approximate size of their results."""
        self._most_rows = most_rows
        self._target_bytes = target_bytes
        self.rows = min(_FIRST_ROWS, most_rows)

    def took(self, rows: int, results_bytes: int, *, full: bool) -> None:
        """Note the size of the results of some rows.

        ``full``: whether the limit has left rows out; then the next portion may be larger.  No rows
        say nothing about the size of results: time alone has made them due.
        """
        if not rows:
            return
        fits = rows * self._target_bytes // max(1, results_bytes)
        most = _GROWTH * self.rows if full else self.rows
        self.rows = max(1, min(fits, most, self._most_rows))


def bytes_of(frames: Frames) -> int:
    """Return the approximate size of frames."""
    return sum(int(frame.estimated_size()) for frame in frames.values())


def height_of(sides: Frames) -> int:
    """Return the number of rows of all inputs."""
    return sum(frame.height for frame in sides.values())


def counted(sides: Frames) -> int:
    """Return the number of rows of all inputs, without copies of rows of other partitions."""
    return sum(own_rows(frame).height for frame in sides.values())


def span_of(sides: Frames) -> int:
    """Return the number of places in log order, from the first row to the last, of all inputs."""
    if len(sides) == 1:
        return height_of(sides)
    orders = [frame[ORDER].to_numpy() for frame in sides.values() if frame.height]
    return int(max(order[-1] for order in orders) - _first(orders)) + 1 if orders else 0


def _first(orders: Sequence[Numbers]) -> int:
    return int(min(order[0] for order in orders if order.size))


def rows_between(sides: Frames, low: int, high: int) -> Frames:
    """Return the rows at places low to high - 1 in log order, counted over all inputs."""
    if len(sides) == 1:
        return {name: frame[low:high] for name, frame in sides.items()}
    orders = {name: frame[ORDER].to_numpy() for name, frame in sides.items()}
    if not height_of(sides):
        return sides
    bounds = np.array([low, high]) + _first([*orders.values()])
    found = {name: np.searchsorted(order, bounds).tolist() for name, order in orders.items()}
    return {name: frame[found[name][0] : found[name][1]] for name, frame in sides.items()}


def process_some(
    body: Body, state: Any, sides: Frames, taken: int, rows: int
) -> tuple[Frames, Frames, int]:
    """Process rows from a place on; return them, what they publish, and the number of places.

    It processes fewer than ``rows`` places if their rows would have too many results.
    """
    while True:
        some = rows_between(sides, taken, taken + rows)
        if taken and not height_of(some):  # the state has all rows
            return some, {}, rows
        try:
            return some, body.process(some, state), rows
        except TooManyResultsError as error:
            rows = error.places


def joined(before: Frames, after: Frames) -> Frames:
    """Return the rows of each port: those of ``before``, then those of ``after``."""
    return {
        **before,
        **{
            port: pl.concat([before[port], frame]) if port in before else frame
            for port, frame in after.items()
        },
    }
