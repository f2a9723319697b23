"""Keyed state of sessions: a table of live sessions, and indices of when each is due.

See docs/semantics.md, "Sessions".  A segment finds the sessions of its keys, takes those that its
rows merge with and puts the results.  A session is due when the clock reaches its end.  It is
dropped when the clock has passed its end by the allowed lateness.

(key, start, end) identifies a live session.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.operators.operator import Changes
from tidemark.core.operators.sessions.facts import (
    FACTS,
    PUBLISHED_END,
    PUBLISHED_ROWS,
    RECORDED,
    SHOWN_EARLY,
)
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.due_index import DueIndex
from tidemark.core.state.keyed_lines import Facts, Hashes, Lines, Mask, Numbers, hashes_of, joined
from tidemark.core.state.line_table import LineMatches, LineTable
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.open_bounds import OpenBounds
from tidemark.core.windows.pane import END, START

REMOVED, PUBLISHED, PUT = "removed", "published", "put"
"""Frames of the state's changes, in the order in which they apply; changelogs store the names.

REMOVED and PUBLISHED have the key columns, START and END (Int64, ms).  PUT has the key columns, the
facts of facts.py and the partials of the aggregates.
"""


class SessionState:
    """Live sessions of one operator on one log partition.

    A session lives until the clock has passed its end by the allowed lateness.  If it stays in the
    state for longer, no row sees it.
    """

    def __init__(
        self,
        key: tuple[str, ...],
        allowed_lateness_ms: int,
        store: BlockStore = IN_MEMORY,
        facts: np.dtype[np.void] = FACTS,
    ) -> None:
        """Start empty; ``store``: where keys and partials lie; ``facts``: the type of the facts."""
        self.key = key
        self._facts = facts
        self._store = store
        self.allowed_lateness_ms = allowed_lateness_ms
        self._withdrawn: list[Lines] = []
        self._reported: dict[str, list[pl.DataFrame]] = {REMOVED: [], PUBLISHED: []}
        self._snapshot_taken = False
        self._start_empty()

    def _start_empty(self) -> None:
        self.lines = LineTable(self._facts, self._store)
        self._due = DueIndex()  # by end, until the clock has passed it
        self._passed = DueIndex()  # by end, from then on
        self._held = DueIndex()  # by end: with rows that wait for a late pane

    def find(self, keys: pl.DataFrame, hashes: Hashes) -> LineMatches:
        """Return the live sessions of distinct keys; fastest if hashes are sorted."""
        return self.lines.find(keys, hashes)

    def take(self, found: LineMatches) -> pl.DataFrame:
        """Remove sessions that were found; return their partials, in the order of ``found``."""
        partials = self.lines.partials(found.slot)
        self._report(REMOVED, found.slot, found.keys)
        self.lines.take(found.slot)
        return partials

    def _report(self, what: str, slots: Numbers, keys: pl.DataFrame) -> None:
        # The removal of a session that neither changes() nor snapshot() has shown is no change.
        if not self._snapshot_taken and self.lines.fresh[slots].any():
            known = np.flatnonzero(~self.lines.fresh[slots])
            slots, keys = slots[known], keys[known]
        if slots.size:
            facts = self.lines.facts.take(slots)
            bounds = [pl.Series(name, np.ascontiguousarray(facts[name])) for name in (START, END)]
            self._reported[what].append(keys.hstack(bounds))

    def unshown(self, end_ms: int, recorded_ms: int) -> LineMatches | None:
        """Return the live sessions that end after ``end_ms`` and have rows that no pane shows.

        Only sessions whose last row was recorded before ``recorded_ms`` are returned.
        """
        facts = self.lines.facts
        lacks = self.lines.alive & (facts[PUBLISHED_ROWS] < facts[ROWS]) & (facts[END] > end_ms)
        slots = np.flatnonzero(lacks & (facts[RECORDED] < recorded_ms))
        if not slots.size:
            return None
        return LineMatches(slots, np.arange(slots.size), self.lines.keys(slots), facts.take(slots))

    def replace(self, found: LineMatches, facts: Facts) -> Lines:
        """Replace the facts of sessions that were found; return the sessions as they were."""
        lines = self.lines.lines(found.slot)
        self.take(found)
        self.put(replace(lines, facts=facts).in_order())
        return lines

    def put(self, sessions: Lines) -> None:
        """Add new sessions, in order of hash."""
        self._add(sessions, fresh=True)

    def _add(self, sessions: Lines, *, fresh: bool) -> None:
        slots = self.lines.put(sessions, fresh=fresh)
        self._due.put(slots, sessions.facts[END])

    def withdraw(self, found: LineMatches) -> None:
        """Remember published sessions whose panes this segment withdraws."""
        if found.slot.size:
            self._withdrawn.append(self.lines.lines(found.slot))

    def take_withdrawn(self) -> Lines | None:
        """Return, once, the sessions whose panes this segment withdraws."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return joined(withdrawn) if withdrawn else None

    def publish(
        self, end_ms: int, clock_ms: int, before_ms: int, late_rows: int = 1
    ) -> Lines | None:
        """Return the sessions with ends up to ``end_ms`` that need a new pane.

        They count as published from then on.  Those that no row can reach are removed.  A published
        session that ended by ``before_ms`` waits until ``late_rows`` rows are in no pane, or until
        it is final.
        """
        slots = self._ended(self._due, end_ms)
        rest = self._ended(self._held, max(NEVER_MS, clock_ms - self.allowed_lateness_ms))
        if rest.size:
            slots = np.union1d(slots, rest[self._lacks(rest)])
        facts = self.lines.facts.take(slots)
        lacks = self._lacks(slots)
        final = facts[END] + self.allowed_lateness_ms <= clock_ms
        waits = ~(lacks & final)
        self._passed.put(slots[waits], facts[END][waits])
        few = (facts[PUBLISHED_ROWS] > 0) & (facts[ROWS] - facts[PUBLISHED_ROWS] < late_rows)
        held = lacks & ~final & few & ~facts[SHOWN_EARLY] & (facts[END] <= before_ms)
        self._held.put(slots[held], facts[END][held])
        lacks &= ~held
        if not lacks.any():
            return None
        due = self.lines.lines(slots[lacks])
        self._leave(due, slots[lacks], final[lacks])
        return due

    def is_due(self, end_ms: int, clock_ms: int) -> bool:
        """Whether ``publish`` may find a session; one that has grown may be found too early."""
        final_ms = clock_ms - self.allowed_lateness_ms
        return self._due.is_due(end_ms) or self._held.is_due(final_ms) or bool(self._withdrawn)

    def _lacks(self, slots: Numbers) -> Mask:
        """Mark the sessions whose rows, or whose close, no pane shows."""
        facts = self.lines.facts.take(slots)
        lacks: Mask = (facts[PUBLISHED_ROWS] < facts[ROWS]) | facts[SHOWN_EARLY]
        return lacks

    def _ended(self, index: DueIndex, end_ms: int) -> Numbers:
        """Take from an index the live sessions that ended by ``end_ms``; keep those that grew."""
        slots = index.pop_due(end_ms)
        slots = slots[self.lines.alive[slots]]
        ends_ms = self.lines.facts.take(slots)[END]
        grown = ends_ms > end_ms
        index.put(slots[grown], ends_ms[grown])
        return slots[~grown]

    def _leave(self, due: Lines, slots: Numbers, final: Mask) -> None:
        """Mark sessions as published; remove those whose panes are final."""
        stay, go = np.flatnonzero(~final), np.flatnonzero(final)
        self._report(PUBLISHED, slots[stay], due.keys[stay])
        self._mark_published(slots[stay])
        self._report(REMOVED, slots[go], due.keys[go])
        self.lines.drop(slots[go])

    def _mark_published(self, slots: Numbers) -> None:
        facts = self.lines.facts
        facts[PUBLISHED_ROWS][slots], facts[PUBLISHED_END][slots] = (
            facts[ROWS][slots],
            facts[END][slots],
        )
        facts[SHOWN_EARLY][slots] = False

    def changes(self) -> Changes:
        """Return, once, the sessions removed, published and put since the last call."""
        fresh = self.lines.take_fresh()
        frames = {**self._reported, PUT: [self.lines.lines(fresh).frame()] if fresh.size else []}
        self._reported = {REMOVED: [], PUBLISHED: []}
        self._snapshot_taken = False
        return {name: pl.concat(made, how="diagonal") for name, made in frames.items() if made}

    def snapshot(self) -> Iterator[Changes]:
        """Return all live sessions."""
        self._snapshot_taken = True
        return ({PUT: lines} for lines in self.lines.snapshot())

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return self.lines.size_bytes()

    def open_windows(self) -> int:
        """Return the number of live sessions."""
        return self.lines.live

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of live sessions."""
        slots = np.flatnonzero(self.lines.alive)
        facts = self.lines.facts
        return [OpenBounds(facts[START][slots], lambda place: int(facts[END][slots[place]]))]

    def apply(self, changes: Changes) -> None:
        """Remove, mark, then put; a session that is put replaces itself."""
        if REMOVED in changes:
            self.lines.take(self._identified(changes[REMOVED]))
        if PUBLISHED in changes:
            self._mark_published(self._identified(changes[PUBLISHED]))
        if PUT in changes:
            self.lines.take(self._identified(changes[PUT]))
            self._add(Lines.of_frame(changes[PUT], self.key, self._facts).in_order(), fresh=False)

    def _identified(self, sessions: pl.DataFrame) -> Numbers:
        """Return the slots of sessions by key, start and end, each slot once.

        After a snapshot a session may be reported twice: taken, put back and removed again.
        """
        keys = sessions.select(self.key)
        found = self.find(keys, hashes_of(keys))
        same = np.ones(found.slot.size, np.bool_)
        for name in (START, END):
            same &= found.facts[name] == sessions[name].to_numpy()[found.key]
        return np.unique(found.slot[same])

    def purge(self, clock_ms: int) -> None:
        """Drop the sessions that no row can reach; their panes are published."""
        last_ms = max(NEVER_MS, clock_ms - self.allowed_lateness_ms)
        self.lines.drop(self._ended(self._passed, last_ms))
        self.lines.purge()
        if not self.lines.live:
            self._start_empty()

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self._withdrawn, "withdrawn panes were not published"
        self.lines.validate()
        self._due.validate()
        self._passed.validate()
        self._held.validate()
        facts = self.lines.facts[self.lines.alive]
        assert bool((facts[PUBLISHED_ROWS] <= facts[ROWS]).all()), (
            "a pane has more rows than its session"
        )
        assert bool((facts[START] < facts[END]).all()), "a session ends before it starts"
        live = [lines.select(*self.key, START, END) for lines in self.lines.snapshot()]
        assert not live or not pl.concat(live).is_duplicated().any(), "a session is stored twice"
