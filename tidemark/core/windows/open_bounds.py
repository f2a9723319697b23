"""The bounds of the windows that rows can still reach, and how old these windows are.

See docs/operations.md, "Open windows by age".  States give bounds as columns, so that no window
costs a Python object.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidemark.core.time.segment import FOREVER_MS, NEVER_MS
from tidemark.core.windows.window import AlignedWindows

Times = npt.NDArray[np.int64]


class OpenBounds(NamedTuple):
    """The bounds of some open windows.

    ``begin_ms``: their begins.  ``end_of``: returns the end, ms, of the window at a place of
    ``begin_ms``.  ``counts``: how many windows a place stands for; None: one each.
    """

    begin_ms: Times
    end_of: Callable[[int], int]
    counts: Times | None = None

    def count_from(self, begin_ms: int) -> int:
        """Return how many windows begin at a time or later."""
        later = self.begin_ms >= begin_ms
        return int(np.count_nonzero(later) if self.counts is None else self.counts[later].sum())


def aligned_bounds(windows: AlignedWindows, slice_start_ms: Times, closed_ms: int) -> OpenBounds:
    """Return the bounds of the windows of time slices that end after ``closed_ms``.

    ``slice_start_ms``: of the slices that hold a row.
    """
    every_ms = windows.ends_of(slice_start_ms)
    is_open = (every_ms > slice_start_ms[:, None]) & (every_ms > closed_ms)
    ends_ms = np.unique(every_ms[is_open])
    return OpenBounds(windows.start_of(ends_ms), lambda place: int(ends_ms[place]))


class WindowAges(NamedTuple):
    """The oldest open window, and the number of windows in each range of age.

    ``counts``: for each bound of age, the windows up to it that are older than the bound before;
    then the windows that are older than all bounds.  Empty if no age is known.
    """

    oldest_begin_ms: int | None = None
    oldest_end_ms: int | None = None
    counts: Sequence[int] = ()


def ages_of(found: Iterable[OpenBounds], clock_ms: int, ages_ms: Sequence[int]) -> WindowAges:
    """Return the ages of windows: the clock minus their begin, at least 0.

    ``ages_ms``: the bounds of age, ascending.
    """
    parts = [each for each in found if each.begin_ms.size]
    if not parts:
        return WindowAges()
    begin_ms, end_ms = min(map(_oldest, parts))
    if clock_ms in (NEVER_MS, FOREVER_MS):
        return WindowAges(begin_ms, end_ms)
    total = sum(each.count_from(NEVER_MS) for each in parts)
    within = [0]
    for age_ms in ages_ms:
        # Most windows are young.  Once all are counted, the columns are not read again.
        full = within[-1] == total
        found_ms = clock_ms - age_ms
        within.append(total if full else sum(each.count_from(found_ms) for each in parts))
    return WindowAges(begin_ms, end_ms, np.diff([*within, total]).tolist())


def _oldest(part: OpenBounds) -> tuple[int, int]:
    """Return begin and end of the first window of a part."""
    place = int(part.begin_ms.argmin())
    return int(part.begin_ms[place]), part.end_of(place)
