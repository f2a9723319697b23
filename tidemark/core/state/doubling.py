"""Questions about sequences and forests whose answers hang on each other, without loops over them.

Each takes as many rounds as the length has bits, with all elements at once.  A forest is an array
that says of each node which one is above it; one at the top is above itself.
"""

from typing import Protocol

import numpy as np

from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.segment import NEVER_MS


class Merge(Protocol):
    """A ufunc of two numbers."""

    def at(self, numbers: Numbers, places: Numbers, values: Numbers, /) -> None:
        """Merge values into the numbers at places."""


def last_above(values: Numbers, at: Numbers, limit: Numbers) -> Numbers:
    """Return the last place before each of ``at`` with a value above its limit, or -1."""
    place = at.copy()
    for width, highest in reversed(_highest(values)):
        # ``highest[p]`` is of the ``width`` places before p.
        skips = (place >= width) & (highest[place] <= limit)
        place[skips] -= width
    return place - 1


def _highest(values: Numbers) -> list[tuple[int, Numbers]]:
    """Return for each power of two the highest of so many values before each place."""
    level = np.concatenate([[NEVER_MS], values])
    levels, width = [(1, level)], 1
    while width * 2 <= values.size:
        wider = level.copy()
        wider[width:] = np.maximum(level[width:], level[:-width])
        level, width = wider, width * 2
        levels.append((width, level))
    return levels


def highest_before(values: Numbers, number: Numbers) -> Numbers:
    """Return for each place the highest value of those before it with a lower number, or NEVER_MS.

    ``number``: 0 to n - 1 in any order.  Of two numbers the highest bit in which they differ says
    which is lower, so each pair is met in one round.
    """
    order = np.argsort(values, kind="stable")
    rank = np.empty(values.size, np.int64)
    rank[order] = np.arange(values.size)
    best = np.full(values.size, -1)
    for bit in range(int(values.size - 1).bit_length()):
        block = number >> (bit + 1)
        by = np.argsort(block, kind="stable")
        low = (number[by] >> bit) & 1 == 0
        base = block[by] * (values.size + 1)
        highest = np.maximum.accumulate(np.where(low, rank[by], -1) + base) - base
        best[by] = np.maximum(best[by], np.where(low, -1, highest))
    return np.where(best < 0, NEVER_MS, values[order[best]])


def lowest_over(begin: Numbers, stop: Numbers, values: Numbers, size: int, none: int) -> Numbers:
    """Return for each of ``size`` places the lowest value of the stretches over it, or ``none``."""
    some = np.flatnonzero(begin < stop)
    begin, stop, values = begin[some], stop[some], values[some]
    bits = np.frexp((stop - begin).astype(np.float64))[1] - 1
    lowest = np.full(size, none)
    for bit in range(int(bits.max(initial=0)), -1, -1):
        # From stretches of twice the width to those of this one.
        wider, width = lowest, 1 << bit
        lowest = wider.copy()
        if width < size:
            np.minimum(lowest[width:], wider[:-width], out=lowest[width:])
        at = np.flatnonzero(bits == bit)
        np.minimum.at(lowest, begin[at], values[at])
        np.minimum.at(lowest, stop[at] - width, values[at])
    return lowest


def roots(parent: Numbers) -> Numbers:
    """Return the last node on the way up from each one; that one is above itself."""
    while True:
        higher = parent[parent]
        if np.array_equal(higher, parent):
            return parent
        parent = higher


def ancestors_of(parent: Numbers, begins: Mask) -> Mask:
    """Return the nodes on the ways up from some."""
    marked = begins.copy()
    while True:
        marked[parent[marked]] = True
        higher = parent[parent]
        if np.array_equal(higher, parent):
            return marked
        parent = higher


def subtree_totals(parent: Numbers, values: Numbers, merge: Merge) -> Numbers:
    """Merge into the value of each node those of all nodes below it.

    ``merge`` is ``np.add`` or another one that has no order.
    """
    every = np.arange(parent.size)
    made = values.copy()
    # ``made`` has what is less than 2**k steps below, ``ancestor`` is 2**k steps above or nowhere.
    ancestor = np.where(parent == every, parent.size, parent)
    while True:
        at = np.flatnonzero(ancestor < parent.size)
        if not at.size:
            return made
        merge.at(made, ancestor[at], made[at])
        ancestor = np.append(ancestor, parent.size)[ancestor]


def heavy_paths(parent: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
    """Cut a forest into paths, from each node on to the one above if it is the heaviest below that.

    Returns of each node the top of its path, and how many other paths lie above that: no more than
    the weight of all has bits, where nodes weigh at least what those below them weigh together.
    """
    every = np.arange(parent.size)
    order = np.lexsort((weight, parent))
    order = order[parent[order] != order]
    last = np.ones(order.size, np.bool_)
    last[:-1] = parent[order][1:] != parent[order][:-1]
    up = every.copy()
    up[order[last]] = parent[order[last]]
    top = roots(up)
    level, at = np.zeros(parent.size, np.int64), top
    while True:
        higher = parent[at]
        goes_on = higher != at
        if not goes_on.any():
            return top, level
        level += goes_on
        at = top[higher]
