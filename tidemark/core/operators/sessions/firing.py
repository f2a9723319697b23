"""The rows at which sessions are published early, and the pane that is published after each row.

See docs/semantics.md, "Early panes of sessions".  Each row makes a *version* of a session
(history.py), and versions are the nodes of a forest.  The published pane of a version depends on
the versions that became part of it.  So versions are processed along *paths* through the forest:
all paths whose beginning is known at once, then those that waited for them.

* Accumulating panes: a pane stays published while the session keeps its start.  A path goes on from
  a version to the version that took it in, if that has the same start.  Several versions with one
  start may become one, because rows of one could not see the other.  Then a new path begins, and
  the pane with the most rows stays published.
* Discarding panes: a version holds the unpublished rows of all versions that became part of it.
  A path goes on from the part with the most rows.  The other parts hand over the rows they hold.
"""

from dataclasses import dataclass

import numpy as np

from tidemark.core.state.doubling import ancestors_of, heavy_paths, roots
from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.trigger import Every, EveryEventTime, EveryRows

NONE = -1
"""In place of a version: no pane is published."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of sessions as the nodes of a forest: stored sessions, then one version a row.

    ``stored``: the number of stored sessions.  ``above``: the version that took this one in, or
    itself.  ``rows``: the number of rows of the session.  ``pane_rows`` and ``pane_end_ms``: rows
    and end of a pane.  For a stored session that is its published pane, for a row's version the
    pane that the version would publish.  ``may_fire``: whether the version may be published early.
    """

    stored: int
    above: Numbers
    start_ms: Numbers
    end_ms: Numbers
    highest_ms: Numbers
    rows: Numbers
    pane_rows: Numbers
    pane_end_ms: Numbers
    may_fire: Mask

    @property
    def last(self) -> Mask:
        """Mark the versions that no later row of the segment changes."""
        last: Mask = self.above == np.arange(self.above.size)
        return last

    @property
    def moved(self) -> Mask:
        """Mark the versions that became part of a session with another start."""
        moved: Mask = self.start_ms != self.start_ms[self.above]
        return moved

    @property
    def has_pane(self) -> Mask:
        """Mark the stored sessions that have a published pane."""
        has_pane: Mask = self.pane_rows > 0
        has_pane[self.stored :] = False
        return has_pane

    def crossing(self, interval_ms: int) -> Mask:
        """Mark the versions with an event time in a later interval than all of their parts."""
        interval = self.highest_ms // interval_ms
        before = np.full(interval.size, NEVER_MS)
        below = np.flatnonzero(~self.last)
        np.maximum.at(before, self.above[below], interval[below])
        crossing: Mask = (before > NEVER_MS) & (interval > before)
        return crossing


def accumulating(versions: Versions, every: Every) -> tuple[Mask, Numbers]:
    """Return which versions fire, and the version whose pane is published after each, or NONE."""
    fires = None
    if not isinstance(every, EveryRows):
        fires = _replacing(versions, every)
    above = versions.above
    stays = ~versions.last & ~versions.moved
    joined = np.bincount(above[stays], minlength=above.size)
    top = roots(np.where(stays & (joined[above] == 1), above, np.arange(above.size)))
    nodes = np.argsort(top, kind="stable")
    first = np.searchsorted(top[nodes], top[nodes])
    begin = nodes[first]  # the beginning of the path at each place
    made, pane = (
        np.zeros(above.size, np.bool_),
        np.where(versions.has_pane, np.arange(top.size), NONE),
    )
    shown = np.zeros(above.size, np.bool_) if fires is None else fires
    while not made.all():
        # A version made of several with the same start waits for all of them.
        waits = np.zeros(above.size, np.bool_)
        waits[above[stays & ~made & (joined[above] > 1)]] = True
        ready = ~made[nodes] & ~waits[begin]
        some, origin = nodes[ready], (np.add.accumulate(ready.astype(np.int64)) - 1)[first[ready]]
        _inherit(versions, stays & (joined[above] > 1) & ~made[above], made, pane)
        before = pane[begin[ready]]
        if isinstance(every, EveryRows):
            was = np.where(before == NONE, 0, versions.pane_rows[before])
            shown[some] = _fired(
                versions.rows[some], versions.may_fire[some], origin, was, every.rows
            )
        latest = np.maximum.accumulate(np.where(shown[some], np.arange(some.size), NONE))
        pane[some] = np.where(latest >= origin, some[latest], before)
        made[some] = True
    return shown, pane


def _inherit(versions: Versions, joins: Mask, made: Mask, pane: Numbers) -> None:
    """Keep the pane with the most rows where several versions with one start became one."""
    at = np.flatnonzero(joins & made & (pane != NONE))
    shows, end_ms = versions.pane_rows[pane[at]], versions.pane_end_ms[pane[at]]
    at = at[np.lexsort((end_ms, shows))]
    pane[versions.above[at]] = pane[at]


def _replacing(versions: Versions, every: Every) -> Mask:
    """Return the versions that fire by event time or that replace withdrawn panes."""
    fires = _in_time(versions, every)
    moved, above = versions.moved, versions.above
    # A version that may not fire does not replace a withdrawn pane.
    passes = ~moved | versions.may_fire[above]
    up = np.where(passes, above, np.arange(above.size))
    withdrawn = moved & ancestors_of(up, fires | versions.has_pane)
    fires[above[withdrawn]] = True
    return fires & versions.may_fire


def _in_time(versions: Versions, every: Every) -> Mask:
    if isinstance(every, EveryEventTime):
        return versions.crossing(every.interval_ms) & versions.may_fire
    return np.zeros(versions.above.size, np.bool_)


def discarding(versions: Versions, every: Every) -> Mask:
    """Return which versions fire.  Their panes show the rows that no pane has shown."""
    if not isinstance(every, EveryRows):
        return _in_time(versions, every)
    above = versions.above
    held = np.ones(above.size, np.int64)
    held[: versions.stored] = (versions.rows - versions.pane_rows)[: versions.stored]
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
    """Return where paths fire: at each place with ``rows`` rows more than at the firing before.

    ``total``: the rows at each place; never falls along a path.  ``first``: the place where the
    path of each place begins.  ``before``: the rows shown before that place.
    """
    size = total.size
    path = np.add.accumulate((first == np.arange(size)).astype(np.int64))
    base = path * (int(total.max(initial=0)) + rows + 1)
    soonest = np.append(np.where(may_fire, np.arange(size), size), size)
    soonest = np.minimum.accumulate(soonest[::-1])[::-1]

    def following(shown: Numbers) -> Numbers:
        at = soonest[np.searchsorted(base + total, base + shown + rows)]
        inside = np.append(first, NONE)[at] == first
        return np.where(inside, at, size)

    begins = np.zeros(size + 1, np.bool_)
    begins[following(before)] = True
    fires = ancestors_of(np.append(following(total), size), begins)
    return fires[:size]
