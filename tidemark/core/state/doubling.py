"""Searches in sequences and forests by pointer doubling, without loops over elements.

Each function takes about log2(n) rounds over all elements at once.  A forest is an array ``parent``
with the parent of each node; a root is its own parent.
"""

from typing import Protocol

import numpy as np

from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.segment import NEVER_MS


class Merge(Protocol):
    """A NumPy ufunc of two numbers, such as ``np.add``."""

    def at(self, numbers: Numbers, places: Numbers, values: Numbers, /) -> None:
        """Merge values into the numbers at places, in place."""


def last_above(values: Numbers, at: Numbers, limit: Numbers) -> Numbers:
    """Return for each of ``at`` the last place before it with a value above its limit, or -1."""
    place = at.copy()
    for width, highest in reversed(_highest(values)):
        # ``highest[p]`` is the highest of the ``width`` values before p.
        skips = (place >= width) & (highest[place] <= limit)
        place[skips] -= width
    return place - 1


def _highest(values: Numbers) -> list[tuple[int, Numbers]]:
    """Return for each power of two the highest of that many values before each place."""
    level = np.concatenate([[NEVER_MS], values])
    levels, width = [(1, level)], 1
    while width * 2 <= values.size:
        wider = level.copy()
        wider[width:] = np.maximum(level[width:], level[:-width])
        level, width = wider, width * 2
        levels.append((width, level))
    return levels


def highest_before(values: Numbers, number: Numbers) -> Numbers:
    """Return for each place the highest value before it with a lower number, or NEVER_MS.

    ``number``: a permutation of 0 to n - 1.  The highest bit in which two numbers differ decides
    which is lower, so each pair is compared in exactly one round.
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
    """Return for each of ``size`` places the lowest value of the ranges that cover it, or ``none``.

    Range i is ``[begin[i], stop[i])`` and has ``values[i]``.
    """
    some = np.flatnonzero(begin < stop)
    begin, stop, values = begin[some], stop[some], values[some]
    bits = np.frexp((stop - begin).astype(np.float64))[1] - 1
    lowest = np.full(size, none)
    for bit in range(int(bits.max(initial=0)), -1, -1):
        # From ranges of twice the width to ranges of this width.
        wider, width = lowest, 1 << bit
        lowest = wider.copy()
        if width < size:
            np.minimum(lowest[width:], wider[:-width], out=lowest[width:])
        at = np.flatnonzero(bits == bit)
        np.minimum.at(lowest, begin[at], values[at])
        np.minimum.at(lowest, stop[at] - width, values[at])
    return lowest


def roots(parent: Numbers) -> Numbers:
    """Return the root of each node."""
    while True:
        higher = parent[parent]
        if np.array_equal(higher, parent):
            return parent
        parent = higher


def ancestors_of(parent: Numbers, begins: Mask) -> Mask:
    """Return a mask of the nodes in ``begins`` and all their ancestors."""
    marked = begins.copy()
    while True:
        marked[parent[marked]] = True
        higher = parent[parent]
        if np.array_equal(higher, parent):
            return marked
        parent = higher


def subtree_totals(parent: Numbers, values: Numbers, merge: Merge) -> Numbers:
    """Return for each node its value merged with the values of all its descendants.

    ``merge``: ``np.add`` or another commutative and associative ufunc.
    """
    every = np.arange(parent.size)
    totals = values.copy()
    # ``totals`` has the values less than 2**k steps below; ``ancestor`` is 2**k steps above, or
    # parent.size above the root.
    ancestor = np.where(parent == every, parent.size, parent)
    while True:
        at = np.flatnonzero(ancestor < parent.size)
        if not at.size:
            return totals
        merge.at(totals, ancestor[at], totals[at])
        ancestor = np.append(ancestor, parent.size)[ancestor]


def heavy_paths(parent: Numbers, weight: Numbers) -> tuple[Numbers, Numbers]:
    """Return the heavy-path decomposition of a forest (Sleator and Tarjan, 1983).

    A path continues from a node to its parent if the node is the parent's heaviest child.  Returns
    for each node the top of its path, and the number of paths above that path.  If each node weighs
    at least as much as its children together, that number is at most log2 of the total weight.
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
