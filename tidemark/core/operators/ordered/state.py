"""Keyed state of operators in order of event time: for each key, its last row that counts.

A line is the event time of that row, and what later rows need of it.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.operators.operator import Changes
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.due_index import DueIndex
from tidemark.core.state.keyed_lines import Hashes, Lines, Numbers
from tidemark.core.state.line_table import LineMatches, LineTable
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.open_bounds import OpenBounds

KEYS = "keys"
"""Frame of changes: a line for each key; changelogs store the name, so its value never changes."""

TIME = "@time"
"""Fact of a line, Int64 ms: the event time of the key's last row that counts."""

FACTS = np.dtype([(ROWS, np.int64), (TIME, np.int64)])


class LastRows:
    """Lines by key; ``keeps_ms``: how long after its row a line counts, None for ever."""

    def __init__(
        self, by: tuple[str, ...], keeps_ms: int | None, store: BlockStore = IN_MEMORY
    ) -> None:
        """Start empty; ``by``: the columns of the key; ``store``: where blocks lie."""
        self._by = by
        self._keeps_ms = keeps_ms
        self._lines = LineTable(FACTS, store)
        self._due = DueIndex()

    def find(self, keys: pl.DataFrame, hashes: Hashes) -> LineMatches:
        """Return the lines of distinct keys, which are in order of hash."""
        return self._lines.find(keys, hashes)

    def partials(self, slots: Numbers) -> pl.DataFrame:
        """Return what lines hold besides their facts, in the order of slots; no column for none."""
        return self._lines.partials(slots) if slots.size else pl.DataFrame()

    def replace(self, lines: Lines, *, fresh: bool = True) -> None:
        """Put lines of distinct keys, in order of hash, in place of earlier ones."""
        if not lines.hashes.size:
            return
        self._lines.take(self._lines.find(lines.keys, lines.hashes).slot)
        slots = self._lines.put(lines, fresh=fresh)
        if self._keeps_ms is not None:
            self._due.put(slots, lines.facts[TIME] + self._keeps_ms)

    def changes(self) -> Changes:
        """Return the lines that changed since the last call."""
        fresh = self._lines.take_fresh()
        return {KEYS: self._lines.lines(fresh).frame()} if fresh.size else {}

    def snapshot(self) -> Iterator[Changes]:
        """Return all lines."""
        return ({KEYS: lines} for lines in self._lines.snapshot())

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return self._lines.size_bytes()

    def open_windows(self) -> int:
        """Return the number of lines."""
        return self._lines.live

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return how long lines count; nothing if they count for ever."""
        keeps_ms = self._keeps_ms
        if keeps_ms is None:
            return ()
        at_ms = self._lines.facts[TIME][self._lines.alive]
        return [OpenBounds(at_ms, lambda place: int(at_ms[place]) + keeps_ms)]

    def apply(self, changes: Changes) -> None:
        """Replace the lines of the keys in the changes."""
        if KEYS in changes:
            lines = Lines.of_frame(changes[KEYS], self._by, FACTS)
            self.replace(lines.in_order(), fresh=False)

    def purge(self, clock_ms: int) -> None:
        """Drop the lines that no longer count: no row before the clock can come."""
        if self._keeps_ms is None or clock_ms == NEVER_MS:
            return
        slots = self._due.pop_due(clock_ms)
        slots = slots[self._lines.alive[slots]]
        due_ms = self._lines.facts[TIME][slots] + self._keeps_ms
        passed = due_ms <= clock_ms
        self._due.put(slots[~passed], due_ms[~passed])
        self._lines.drop(slots[passed])
        self._lines.purge()

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self._lines.validate()
        self._due.validate()


def last_of_groups(group: Numbers) -> Numbers:
    """Return the place of the last element of each group; groups are contiguous."""
    return np.flatnonzero(np.append(group[1:] != group[:-1], True)) if group.size else group
