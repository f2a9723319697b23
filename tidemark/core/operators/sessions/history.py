"""What sessions were after each row of a segment, however rows and sessions meet.

Each row makes a *version* of a session: of itself alone, or of the sessions that it meets, which
are part of it from then on.  So versions are the nodes of a forest.  Stored sessions are nodes too;
they come first.

Theory of operation, for components whose rows see whatever they overlap (fold.py).
Fragments lie in order of start, a *boundary* between neighbours.  Two fragments that overlap bridge
all boundaries between them, from the later one's turn on, and a version reaches to both sides as
far as boundaries are bridged by its turn:

1. Of the fragments that are there by its turn, a new one meets some before it if their highest end
   is after its start.  It bridges the boundaries between the nearest of those and itself; farther
   ones were bridged by others.  So it does those up to the last one that starts before its end.
2. So a boundary is bridged by the lowest turn over it, and a version ends, on both sides, at the
   nearest boundary that is bridged later than its turn.
3. What versions reach over is nested or apart, the later ones around the earlier.  In order of
   begin, longest first, all that became part of a version follow right behind it.
"""

import numpy as np

from tidemark.core.state.doubling import highest_before, last_above, lowest_over
from tidemark.core.state.keyed_lines import Numbers

NONE = -1
"""In place of a node: none took this one in."""


def taken_into(start: Numbers, end: Numbers) -> Numbers:
    """Return for each fragment which one took in the version that it made, or NONE.

    They come in turn, and each meets those of before that it overlaps.  ``start`` and ``end`` are
    on one line on which only fragments of a key overlap.
    """
    order = np.argsort(start, kind="stable")
    begin, stop = _reaches(start[order], end[order], order)
    nested = np.lexsort((-order, -stop, begin))
    stop, node = stop[nested], order[nested]
    above = last_above(stop, np.arange(order.size), stop - 1)
    into = np.empty(order.size, np.int64)
    into[node] = np.where(above < 0, NONE, node[above])
    return into


def _reaches(start: Numbers, end: Numbers, turn: Numbers) -> tuple[Numbers, Numbers]:
    """Return from which place to before which each version reaches, by place of its row."""
    size = turn.size
    every = np.arange(size)
    before = last_above(-turn, every, -turn)
    met_before = highest_before(end, turn) > start
    behind = last_above(-turn, np.searchsorted(start, end), -turn)
    bridged = lowest_over(
        np.where(met_before, before, every),
        np.maximum(behind, every),
        turn,
        size,
        size,
    )
    begin = last_above(bridged, every, turn) + 1
    # The boundary behind a place has its number, so that one may end right here.
    stop = size - 1 - last_above(bridged[::-1], every + 1, turn[::-1])[::-1]
    return begin, np.minimum(stop + 1, size)
