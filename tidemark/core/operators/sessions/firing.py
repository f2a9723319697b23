"""At which rows sessions are published early, and what of them was shown by then.

See docs/semantics.md, "Early panes of sessions".  Sessions are the versions that rows make of them
(history.py).  What stands of a version depends on those that became part of it; ``paths``
through the forest of versions are worked off together, those whose beginnings wait for others
later:

* Accumulating, a pane stands as long as the session keeps its start: a path goes on from a version
  to the one that took it in, if that has the same start.  Where several with one start become one
  (rows of one could not see the other), the pane with the most rows stands: a new path begins.
* Discarding, rows that no pane has shown are those of all that became one: a path goes on from the
  version with the most rows, and the others hand on what they hold.
"""

from dataclasses import dataclass

import numpy as np

from tidemark.core.state.doubling import ancestors_of, heavy_paths, roots
from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.trigger import Every, EveryEventTime, EveryRows

NONE = -1
"""In place of a version: no pane stands."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of sessions as the nodes of a forest: stored ones, then one of each row.

    ``above``: the version that took it in, or itself.  ``rows``: how many the session has.
    ``shows`` and ``shown_end_ms``: rows and end of the pane that stands of a stored one, and of the
    pane that a row's would be.  ``may_fire``: whether it may be shown early.
    """

    stored: int
    above: Numbers
    start_ms: Numbers
    end_ms: Numbers
    highest_ms: Numbers
    rows: Numbers
    shows: Numbers
    shown_end_ms: Numbers
    may_fire: Mask

    @property
    def last(self) -> Mask:
        """Return which ones no later row of the segment changes."""
        last: Mask = self.above == np.arange(self.above.size)
        return last

    @property
    def moved(self) -> Mask:
        """Return which ones became part of a session with another start."""
        moved: Mask = self.start_ms != self.start_ms[self.above]
        return moved

    @property
    def stands(self) -> Mask:
        """Return of which stored ones a pane stands."""
        stands: Mask = self.shows > 0
        stands[self.stored :] = False
        return stands

    def crossing(self, interval_ms: int) -> Mask:
        """Return which ones have an event time in a later interval than all that they took in."""
        interval = self.highest_ms // interval_ms
        before = np.full(interval.size, NEVER_MS)
        below = np.flatnonzero(~self.last)
        np.maximum.at(before, self.above[below], interval[below])
        crossing: Mask = (before > NEVER_MS) & (interval > before)
        return crossing


def accumulating(versions: Versions, every: Every) -> tuple[Mask, Numbers]:
    """Return which versions are shown, and which one's pane stands after each, or NONE."""
    fires = None
    if not isinstance(every, EveryRows):
        fires = _replacing(versions, every)
    above = versions.above
    stays = ~versions.last & ~versions.moved
    joined = np.bincount(above[stays], minlength=above.size)
    top = roots(np.where(stays & (joined[above] == 1), above, np.arange(above.size)))
    nodes = np.argsort(top, kind="stable")
    first = np.searchsorted(top[nodes], top[nodes])
    begin = nodes[first]  # of each place's path
    made, pane = (
        np.zeros(above.size, np.bool_),
        np.where(versions.stands, np.arange(top.size), NONE),
    )
    shown = np.zeros(above.size, np.bool_) if fires is None else fires
    while not made.all():
        # Where several with one start become one, those come first.
        waits = np.zeros(above.size, np.bool_)
        waits[above[stays & ~made & (joined[above] > 1)]] = True
        ready = ~made[nodes] & ~waits[begin]
        some, origin = nodes[ready], (np.add.accumulate(ready.astype(np.int64)) - 1)[first[ready]]
        _inherit(versions, stays & (joined[above] > 1) & ~made[above], made, pane)
        before = pane[begin[ready]]
        if isinstance(every, EveryRows):
            was = np.where(before == NONE, 0, versions.shows[before])
            shown[some] = _fired(
                versions.rows[some], versions.may_fire[some], origin, was, every.rows
            )
        latest = np.maximum.accumulate(np.where(shown[some], np.arange(some.size), NONE))
        pane[some] = np.where(latest >= origin, some[latest], before)
        made[some] = True
    return shown, pane


def _inherit(versions: Versions, joins: Mask, made: Mask, pane: Numbers) -> None:
    """Let the pane with the most rows stand of several that became one under their start."""
    at = np.flatnonzero(joins & made & (pane != NONE))
    shows, end_ms = versions.shows[pane[at]], versions.shown_end_ms[pane[at]]
    at = at[np.lexsort((end_ms, shows))]
    pane[versions.above[at]] = pane[at]


def _replacing(versions: Versions, every: Every) -> Mask:
    """Return which versions are shown for the time, or in place of panes that are withdrawn."""
    fires = _in_time(versions, every)
    moved, above = versions.moved, versions.above
    # Where it may not be shown, nothing takes the place of what another start had.
    passes = ~moved | versions.may_fire[above]
    up = np.where(passes, above, np.arange(above.size))
    withdrawn = moved & ancestors_of(up, fires | versions.stands)
    fires[above[withdrawn]] = True
    return fires & versions.may_fire


def _in_time(versions: Versions, every: Every) -> Mask:
    if isinstance(every, EveryEventTime):
        return versions.crossing(every.interval_ms) & versions.may_fire
    return np.zeros(versions.above.size, np.bool_)


def discarding(versions: Versions, every: Every) -> Mask:
    """Return which versions are shown: their rows that no pane has shown."""
    if not isinstance(every, EveryRows):
        return _in_time(versions, every)
    above = versions.above
    held = np.ones(above.size, np.int64)
    held[: versions.stored] = (versions.rows - versions.shows)[: versions.stored]
    fires = np.zeros(above.size, np.bool_)
    top, level = heavy_paths(above, versions.rows)
    for depth in range(int(level.max(initial=0)), -1, -1):
        nodes = np.flatnonzero(level == depth)
        nodes = nodes[np.argsort(top[nodes], kind="stable")]
        path = top[nodes]
        first = np.searchsorted(path, path)
        total = np.add.accumulate(held[nodes])
        total -= (total - held[nodes])[first]
        shown = _fired(total, versions.may_fire[nodes], first, np.zeros_like(total), every.rows)
        fires[nodes] = shown
        latest = np.maximum.accumulate(np.where(shown, np.arange(nodes.size), NONE))
        rest = total - np.where(latest >= first, total[latest], 0)
        hands_on = (nodes == path) & (above[nodes] != nodes)
        np.add.at(held, above[nodes[hands_on]], rest[hands_on])
    return fires


def _fired(total: Numbers, may_fire: Mask, first: Numbers, before: Numbers, rows: int) -> Mask:
    """Return where paths fire: at each place with ``rows`` more than when they did last.

    ``first`` is the place where the path of each begins, ``before`` what was shown before that.
    ``total`` never falls along a path.
    """
    size = total.size
    path = np.add.accumulate((first == np.arange(size)).astype(np.int64))
    laid = path * (int(total.max(initial=0)) + rows + 1)
    soonest = np.append(np.where(may_fire, np.arange(size), size), size)
    soonest = np.minimum.accumulate(soonest[::-1])[::-1]

    def following(shown: Numbers) -> Numbers:
        at = soonest[np.searchsorted(laid + total, laid + shown + rows)]
        inside = np.append(first, NONE)[at] == first
        return np.where(inside, at, size)

    begins = np.zeros(size + 1, np.bool_)
    begins[following(before)] = True
    fires = ancestors_of(np.append(following(total), size), begins)
    return fires[:size]
