"""Which sliding windows exist, and which lines they hold: places and times, no aggregates.

See docs/semantics.md, "Sliding".  operator.py explains windows, state.py explains lines.
"""

from dataclasses import dataclass

import numpy as np

from tidemark.core.state.keyed_lines import Mask, Numbers


@dataclass(frozen=True)
class KeyWindows:
    """Windows of keys.

    ``key``: the number of the key.  ``end_ms``: the end of the window.  ``on_time``: whether a row
    that made the window had W < end.
    """

    key: Numbers
    end_ms: Numbers
    on_time: Mask

    def where(self, mask: Mask) -> "KeyWindows":
        """Return the windows in a mask."""
        return self.at(np.flatnonzero(mask))

    def at(self, index: Numbers) -> "KeyWindows":
        """Return the windows at some places, in that order."""
        return KeyWindows(self.key[index], self.end_ms[index], self.on_time[index])

    def among(self, others: "KeyWindows") -> Mask:
        """Mark the windows that are also in ``others``."""
        ends = np.unique(np.concatenate((self.end_ms, others.end_ms)))
        ours, theirs = (
            each.key * ends.size + np.searchsorted(ends, each.end_ms) for each in (self, others)
        )
        return np.isin(ours, theirs)


@dataclass(frozen=True)
class RowMatches:
    """Pairs of a window and a row that counts in it or made it.

    ``counts``: whether the row counts in the window; if not, it only made the window.  ``there``:
    whether the window exists when the row has come.
    """

    windows: KeyWindows
    row: Numbers
    counts: Mask
    there: Mask


class Timeline:
    """Lines in order of key and time, found by binary search."""

    def __init__(self, key: Numbers, at_ms: Numbers, watermark_ms: Numbers) -> None:
        """Index lines that are in order of key and time."""
        self.key, self.at_ms, self.watermark_ms = key, at_ms, watermark_ms
        self._times = np.unique(at_ms)
        # Ranks are in the same order as times, and fit Int64 for any number of keys.
        self._places = self._place(key, at_ms)

    def where(self, mask: Mask) -> "Timeline":
        """Return the lines in a mask."""
        return Timeline(self.key[mask], self.at_ms[mask], self.watermark_ms[mask])

    def _place(self, key: Numbers, at_ms: Numbers) -> Numbers:
        places: Numbers = key * (self._times.size + 1) + np.searchsorted(self._times, at_ms)
        return places

    def first(self, key: Numbers, at_ms: Numbers) -> Numbers:
        """Return the place of each key's first line at a time or later."""
        return np.searchsorted(self._places, self._place(key, at_ms))

    def inside(self, windows: KeyWindows, far_ms: int, near_ms: int) -> tuple[Numbers, Numbers]:
        """Return the ranges of places of the lines in [end - far_ms, end - near_ms) of windows."""
        begin = self.first(windows.key, windows.end_ms - far_ms)
        return begin, self.first(windows.key, windows.end_ms - near_ms)

    def pairs(self, windows: KeyWindows, far_ms: int) -> tuple[Numbers, Numbers]:
        """Return the places of window and line, for each line in [end - far_ms, end)."""
        begin, end = self.inside(windows, far_ms, 0)
        count = end - begin
        window = np.repeat(np.arange(count.size), count)
        before = np.add.accumulate(count) - count
        return window, np.arange(window.size) + np.repeat(begin - before, count)

    def has(self, key: Numbers, at_ms: Numbers) -> Mask:
        """Return whether each key has a line at exactly its time."""
        return self.first(key, at_ms) < self.first(key, at_ms + 1)


def windows_made(lines: Timeline, size_ms: int, allowed_lateness_ms: int) -> KeyWindows:
    """Return the windows that lines make: those that end with a line or begin just after one.

    A line that is late for the window that ends with it does not make that window.  A window that
    begins just after a line may be empty.
    """
    key, end_ms, watermark_ms = _ends(lines, size_ms)
    late = watermark_ms >= end_ms
    first = _firsts(key, end_ms, late, watermark_ms < end_ms + allowed_lateness_ms)
    return KeyWindows(key[first], end_ms[first], ~late[first])


def match_rows(
    lines: Timeline, rows: Timeline, row: Numbers, size_ms: int, wait_ms: int
) -> RowMatches:
    """Return which rows count in which windows, or make them.

    Args:
        lines: stored lines of the keys, which came before the rows.
        rows: new rows, in order of key and time.
        row: the place of each of ``rows`` in log order.
        size_ms: of the windows.
        wait_ms: a row counts in a window only if W < end + wait_ms.
    """
    known, new = _ends(lines, size_ms), _ends(rows, size_ms)
    key, end_ms, watermark_ms = (np.concatenate(pair) for pair in zip(known, new, strict=True))
    made_by = np.concatenate((np.full(2 * lines.key.size, -1), np.tile(row, 2)))
    first = _firsts(key, end_ms, made_by, watermark_ms < end_ms + wait_ms)
    made_by, some = made_by[first], np.ones(first.size, np.bool_)
    windows = KeyWindows(key[first], end_ms[first], some)
    window, place = rows.pairs(windows, size_ms)
    counts = rows.watermark_ms[place] < windows.end_ms[window] + wait_ms
    window, counted_row = window[counts], row[place[counts]]
    made = np.flatnonzero(made_by >= 0)
    most = int(row.max()) + 1
    made = made[~np.isin(made * most + made_by[made], window * most + counted_row)]
    window, counted_row = (
        np.concatenate((window, made)),
        np.concatenate((counted_row, made_by[made])),
    )
    just_made = np.arange(window.size) >= window.size - made.size
    return RowMatches(windows.at(window), counted_row, ~just_made, counted_row >= made_by[window])


def _ends(lines: Timeline, size_ms: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return key, end and W: of windows that end with lines, then of windows just after them."""
    end_ms = np.concatenate((lines.at_ms + 1, lines.at_ms + 1 + size_ms))
    return np.tile(lines.key, 2), end_ms, np.tile(lines.watermark_ms, 2)


def _firsts(key: Numbers, end_ms: Numbers, rank: Numbers | Mask, counts: Mask) -> Numbers:
    """Return the place with the lowest rank for each key and end, of those that count."""
    order = np.lexsort((rank, end_ms, key))
    order = order[counts[order]]
    key, end_ms = key[order], end_ms[order]
    first = np.ones(order.size, np.bool_)
    first[1:] = (key[1:] != key[:-1]) | (end_ms[1:] != end_ms[:-1])
    return order[first]


def any_of(size: int, members: Numbers) -> Mask:
    """Mark the members."""
    marks = np.zeros(size, np.bool_)
    marks[members] = True
    return marks
