"""Which sliding windows there are, and which lines they hold: numbers only, no aggregates.

See docs/semantics.md, "Sliding", and operator.py.
"""

from dataclasses import dataclass

import numpy as np

from tidemark.core.state.keyed_lines import Mask, Numbers


@dataclass(frozen=True)
class Windows:
    """Windows of keys, by their ends.

    ``on_time``: whether some row that made the window came before its end had passed.
    """

    key: Numbers
    end_ms: Numbers
    on_time: Mask

    def where(self, mask: Mask) -> "Windows":
        """Return some of them."""
        return self.at(np.flatnonzero(mask))

    def at(self, index: Numbers) -> "Windows":
        """Return some of them, in the order of ``index``."""
        return Windows(self.key[index], self.end_ms[index], self.on_time[index])

    def among(self, others: "Windows") -> Mask:
        """Tell which are among others."""
        ends = np.unique(np.concatenate((self.end_ms, others.end_ms)))
        ours, theirs = (
            each.key * ends.size + np.searchsorted(ends, each.end_ms) for each in (self, others)
        )
        return np.isin(ours, theirs)


@dataclass(frozen=True)
class Met:
    """Windows and the rows that count in them or made them: a window's end, and a row, per line.

    ``counts``: whether the row counts in the window, else it just made it.  ``there``: whether the
    window was made by then.
    """

    windows: Windows
    row: Numbers
    counts: Mask
    there: Mask


class Timeline:
    """Lines in order of key and time; found by both."""

    def __init__(self, key: Numbers, at_ms: Numbers, watermark_ms: Numbers) -> None:
        """Index lines in that order."""
        self.key, self.at_ms, self.watermark_ms = key, at_ms, watermark_ms
        self._times = np.unique(at_ms)
        # Ranks are in the same order as times and always fit, however many keys there are.
        self._places = self._place(key, at_ms)

    def where(self, mask: Mask) -> "Timeline":
        """Return some of the lines."""
        return Timeline(self.key[mask], self.at_ms[mask], self.watermark_ms[mask])

    def _place(self, key: Numbers, at_ms: Numbers) -> Numbers:
        places: Numbers = key * (self._times.size + 1) + np.searchsorted(self._times, at_ms)
        return places

    def first(self, key: Numbers, at_ms: Numbers) -> Numbers:
        """Return where the lines of keys at times or later begin."""
        return np.searchsorted(self._places, self._place(key, at_ms))

    def inside(self, windows: Windows, far_ms: int, near_ms: int) -> tuple[Numbers, Numbers]:
        """Return where the lines in [end - far_ms, end - near_ms) of windows begin and end."""
        begin = self.first(windows.key, windows.end_ms - far_ms)
        return begin, self.first(windows.key, windows.end_ms - near_ms)

    def pairs(self, windows: Windows, far_ms: int) -> tuple[Numbers, Numbers]:
        """Return each line in [end - far_ms, end) of each window, as places of both."""
        begin, end = self.inside(windows, far_ms, 0)
        count = end - begin
        window = np.repeat(np.arange(count.size), count)
        before = np.add.accumulate(count) - count
        return window, np.arange(window.size) + np.repeat(begin - before, count)

    def has(self, key: Numbers, at_ms: Numbers) -> Mask:
        """Tell whether keys have lines at exactly some times."""
        return self.first(key, at_ms) < self.first(key, at_ms + 1)


def windows_made(lines: Timeline, size_ms: int, allowed_lateness_ms: int) -> Windows:
    """Return the windows that lines make: those that end with a line, and those that follow one.

    A line that is late for the window that ends with it does not make it.  Windows that follow may
    turn out to be empty.
    """
    key, end_ms, watermark_ms = _ends(lines, size_ms)
    late = watermark_ms >= end_ms
    first = _firsts(key, end_ms, late, watermark_ms < end_ms + allowed_lateness_ms)
    return Windows(key[first], end_ms[first], ~late[first])


def met_by_rows(lines: Timeline, rows: Timeline, row: Numbers, size_ms: int, wait_ms: int) -> Met:
    """Return which rows count in, or make, which windows; ``lines`` came before them.

    ``row`` numbers the rows in the order in which they came.  Only those with W less than
    ``wait_ms`` past a window's end matter to it.
    """
    known, new = _ends(lines, size_ms), _ends(rows, size_ms)
    key, end_ms, watermark_ms = (np.concatenate(pair) for pair in zip(known, new, strict=True))
    made_by = np.concatenate((np.full(2 * lines.key.size, -1), np.tile(row, 2)))
    first = _firsts(key, end_ms, made_by, watermark_ms < end_ms + wait_ms)
    made_by, some = made_by[first], np.ones(first.size, np.bool_)
    windows = Windows(key[first], end_ms[first], some)
    window, place = rows.pairs(windows, size_ms)
    counts = rows.watermark_ms[place] < windows.end_ms[window] + wait_ms
    window, met = window[counts], row[place[counts]]
    made = np.flatnonzero(made_by >= 0)
    most = int(row.max()) + 1
    made = made[~np.isin(made * most + made_by[made], window * most + met)]
    window, met = np.concatenate((window, made)), np.concatenate((met, made_by[made]))
    just_made = np.arange(window.size) >= window.size - made.size
    return Met(windows.at(window), met, ~just_made, met >= made_by[window])


def _ends(lines: Timeline, size_ms: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return key, end and W of the windows that lines end, then of those that they precede."""
    end_ms = np.concatenate((lines.at_ms + 1, lines.at_ms + 1 + size_ms))
    return np.tile(lines.key, 2), end_ms, np.tile(lines.watermark_ms, 2)


def _firsts(key: Numbers, end_ms: Numbers, rank: Numbers | Mask, counts: Mask) -> Numbers:
    """Return of each key and end that counts the place of the lowest rank."""
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
