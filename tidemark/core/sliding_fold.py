"""Which sliding windows there are, and which lines they hold: numbers only, no aggregates.

See docs/semantics.md, "Sliding", and ``sliding``.
"""

from dataclasses import dataclass

import numpy as np

from tidemark.core.keyed_runs import Mask, Numbers


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
        return Windows(self.key[mask], self.end_ms[mask], self.on_time[mask])


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
    key = np.tile(lines.key, 2)
    end_ms = np.concatenate((lines.at_ms + 1, lines.at_ms + 1 + size_ms))
    watermark_ms = np.tile(lines.watermark_ms, 2)
    late = watermark_ms >= end_ms
    order = np.lexsort((late, end_ms, key))
    order = order[watermark_ms[order] < end_ms[order] + allowed_lateness_ms]
    key, end_ms = key[order], end_ms[order]
    first = np.ones(order.size, np.bool_)
    first[1:] = (key[1:] != key[:-1]) | (end_ms[1:] != end_ms[:-1])
    return Windows(key[first], end_ms[first], ~late[order][first])


def any_of(size: int, members: Numbers) -> Mask:
    """Mark the members."""
    marks = np.zeros(size, np.bool_)
    marks[members] = True
    return marks
