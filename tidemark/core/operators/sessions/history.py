"""The history of sessions within a segment: the session of each row, as that row left it.

See docs/semantics.md, "Early panes of sessions".  Each row makes a *version* of a session.  The
version holds the row and the sessions that the row merges with, which are part of the version from
then on.  So versions are the nodes of a forest.  Stored sessions are nodes too, and come first.

Theory of operation, for plain components, whose rows see every session that they overlap (fold.py).
Fragments lie in order of start, with a *boundary* between neighbours.  The *turn* of a fragment is
its place in log order.  Two fragments that overlap bridge all boundaries between them, from the
turn of the later one on.  A version reaches to both sides as far as boundaries are bridged by its
turn.

1. A new fragment overlaps an older one before it if the highest end of the older ones is after its
   start.  It then bridges the boundaries between the nearest older fragment and itself.  Boundaries
   farther away were bridged earlier.  In the same way it bridges the boundaries behind it, up to
   the last older fragment that starts before its end.
2. So the lowest turn over a boundary bridges it.  A version ends, on both sides, at the nearest
   boundary that is bridged later than its turn.
3. The ranges of two versions are nested or disjoint, and the later version is the outer one.
   Sorted by begin, longest first, the parts of a version follow directly behind it.
"""

import numpy as np

from tidemark.core.state.doubling import highest_before, last_above, lowest_over
from tidemark.core.state.keyed_lines import Numbers

NONE = -1
"""In place of a node: no version took this one in."""


def taken_into(start: Numbers, end: Numbers) -> Numbers:
    """Return for each fragment the fragment whose version took in its version, or NONE.

    Fragments are in order of turn.  ``start`` and ``end`` are on one axis, on which only fragments
    of the same key overlap.
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
    """Return the range of places, [begin, stop), of each version, by the place of its fragment."""
    size = turn.size
    every = np.arange(size)
    before = last_above(-turn, every, -turn)
    bridges_before = highest_before(end, turn) > start
    behind = last_above(-turn, np.searchsorted(start, end), -turn)
    bridged = lowest_over(
        np.where(bridges_before, before, every),
        np.maximum(behind, every),
        turn,
        size,
        size,
    )
    begin = last_above(bridged, every, turn) + 1
    # A boundary has the number of the place before it, so a version may end at its own place.
    stop = size - 1 - last_above(bridged[::-1], every + 1, turn[::-1])[::-1]
    return begin, np.minimum(stop + 1, size)
