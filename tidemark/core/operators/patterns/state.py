"""Keyed state of a pattern: rows that wait, partial matches by key, and the rows they may have."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import numpy as np
import polars as pl

from tidemark.core.aggregates import aggregate
from tidemark.core.operators.operator import Changes
from tidemark.core.operators.paired_state import PairedState, Part
from tidemark.core.operators.patterns.step_rows import StepRows
from tidemark.core.operators.waiting_rows import WaitingRows
from tidemark.core.state.block_store import BlockStore
from tidemark.core.state.due_index import DueIndex
from tidemark.core.state.keyed_lines import Hashes, Lines, Numbers, keys_of
from tidemark.core.state.line_table import LineMatches, LineTable
from tidemark.core.windows.open_bounds import OpenBounds

OPEN, ENDED = "open", "ended"
"""Frames of changes: keys with partial matches, and keys that have no more of them.

Changelogs store the names, so their values never change.
"""

PARTIAL = "@partial"
"""Column of a line: the partial matches of a key as numbers, see ``partial.packed``."""

FIRST = "@first"
"""Fact of a line, Int64 ms: the time of the first row of its oldest partial match."""

FACTS = np.dtype([(aggregate.ROWS, np.int64), (FIRST, np.int64)])


class PartialMatches:
    """The partial matches by key; ``within_ms``: of the pattern."""

    def __init__(self, key: tuple[str, ...], within_ms: int, store: BlockStore) -> None:
        """Start empty; ``store``: where blocks lie."""
        self._key = key
        self._within_ms = within_ms
        self._lines = LineTable(FACTS, store)
        self._due = DueIndex()
        self._ended: list[pl.DataFrame] = []

    def __len__(self) -> int:
        """Return the number of keys with partial matches."""
        return self._lines.live

    def find(self, keys: pl.DataFrame, hashes: Hashes) -> LineMatches:
        """Return the lines of distinct keys, which are in order of hash."""
        return self._lines.find(keys, hashes)

    def hashes(self) -> Hashes:
        """Return the hashes of the keys with partial matches."""
        return self._lines.live_hashes()

    def partials(self, slots: Numbers) -> pl.Series:
        """Return the partial matches of lines as numbers, in the order of slots."""
        if not slots.size:
            return pl.Series(PARTIAL, [], pl.List(pl.Int64))
        return self._lines.partials(slots)[PARTIAL]

    def is_due(self, until_ms: int) -> bool:
        """Whether ``pop_due`` may find keys."""
        return self._due.is_due(until_ms)

    def pop_due(self, until_ms: int) -> pl.DataFrame | None:
        """Return the keys whose oldest partial match is over at ``until_ms``, once."""
        slots = self._due.pop_due(until_ms)
        slots = slots[self._lines.alive[slots]]
        due_ms = self._lines.facts[FIRST][slots] + self._within_ms
        is_due = due_ms <= until_ms
        self._due.put(slots[~is_due], due_ms[~is_due])
        return self._lines.keys(slots[is_due]) if is_due.any() else None

    def replace(self, found: LineMatches, lines: Lines, *, fresh: bool = True) -> None:
        """Put lines of distinct keys, in order of hash, in place of those that were found."""
        self._lines.take(found.slot)
        if lines.hashes.size:
            slots = self._lines.put(lines, fresh=fresh)
            self._due.put(slots, lines.facts[FIRST] + self._within_ms)

    def end(self, keys: pl.DataFrame) -> None:
        """Note keys whose lines went and did not come back."""
        if keys.height:
            self._ended.append(keys)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of the oldest partial match of each key."""
        slots = np.flatnonzero(self._lines.alive)
        first_ms = self._lines.facts[FIRST][slots]
        return [OpenBounds(first_ms, lambda place: int(first_ms[place]) + self._within_ms)]

    def changes(self) -> Changes:
        """Return, once, the lines that changed since the last call, and the keys without one."""
        made = {ENDED: pl.concat(self._ended)} if self._ended else {}
        self._ended = []
        fresh = self._lines.take_fresh()
        if fresh.size:
            made[OPEN] = self._lines.lines(fresh).frame()
        return made

    def snapshot(self) -> Iterator[Changes]:
        """Return all lines."""
        return ({OPEN: lines} for lines in self._lines.snapshot())

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return self._lines.size_bytes()

    def apply(self, changes: Changes) -> None:
        """Drop the lines of the keys that ended, then replace those of the keys in the changes."""
        if ENDED in changes:
            keys, hashes, _ = keys_of(changes[ENDED], self._key)
            self._lines.take(self.find(keys, hashes).slot)
        if OPEN in changes:
            lines = Lines.of_frame(changes[OPEN], self._key, FACTS).in_order()
            self.replace(self.find(lines.keys, lines.hashes), lines, fresh=False)

    def purge(self, clock_ms: int) -> None:  # noqa: ARG002 - of a part
        """Free the slots of lines that ended."""
        self._lines.purge()

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self._lines.validate()
        self._due.validate()


class Matching(PairedState):
    """The partial matches, and the rows they may have."""

    def __init__(self, partial: PartialMatches, rows: StepRows) -> None:
        """Start with empty parts."""
        self.partial = partial
        self.rows = rows

    @classmethod
    def empty(
        cls,
        key: tuple[str, ...],
        stored: Mapping[str, pl.DataType],
        within_ms: int,
        store: BlockStore,
    ) -> "Matching":
        """Return the state of a pattern without rows; ``stored``: the columns of a row."""
        partial = PartialMatches(key, within_ms, store)
        return cls(partial, StepRows(stored, within_ms, store))

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.partial, self.rows

    def open_windows(self) -> int:
        """Return the number of keys with partial matches."""
        return len(self.partial)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of partial matches: the oldest of each key."""
        return self.partial.open_bounds()


class PatternState(PairedState):
    """The rows that wait for the clock, and the partial matches."""

    def __init__(self, matching: Matching, waiting: WaitingRows) -> None:
        """Start with empty parts."""
        self.matching = matching
        self.waiting = waiting

    @property
    def _parts(self) -> tuple[Part, Part]:
        return self.matching, self.waiting

    def open_windows(self) -> int:
        """Return the number of keys with partial matches, and of rows that wait."""
        return self.matching.open_windows() + len(self.waiting)

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of partial matches, and the event times of rows that wait."""
        return chain(self.matching.open_bounds(), self.waiting.open_bounds())

    def pending(self) -> bool:
        """Whether rows wait, or partial matches whose time ends."""
        return self.open_windows() > 0
