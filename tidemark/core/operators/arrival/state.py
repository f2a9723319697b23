"""Keyed state of windows in order of arrival: the runs that can share a pane with later rows.

See docs/semantics.md, "Windows in order of arrival".  Each key has one line for every such run.
With discarding panes it has one line for every open window instead.  The last line of a key is its
*head*: the open run or the newest window, possibly without rows.  A key once seen keeps its head
forever, because the numbers of its later runs continue from it.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.operators.operator import Changes
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Hashes, Lines, Numbers, hashes_of, keys_of
from tidemark.core.state.line_table import LineTable
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS
from tidemark.core.windows.arrival import NUMBER
from tidemark.core.windows.open_bounds import OpenBounds

RECORDED = "@recorded"
"""Fact of a run, Int64 ms: the processing time of rows that no pane shows, else FOREVER_MS."""

COUNT = "@count"
"""Fact of a discarding window: the number of its rows; ROWS counts those that no pane shows."""

RUNS = "slices"
"""Name of the only frame in the state's changes: all lines of every changed key.

The frame has the key columns, the facts of a line and the partials of the aggregates.  Changelogs
store the name, so its value never changes.
"""


class ArrivalState:
    """The lines of one operator on one log partition."""

    def __init__(
        self, key: tuple[str, ...], facts: np.dtype[np.void], store: BlockStore = IN_MEMORY
    ) -> None:
        """Start empty; ``facts``: type of the facts of a line; ``store``: where blocks lie."""
        self.key = key
        self.facts = facts
        self.lines = LineTable(facts, store)
        self.now_ms = NEVER_MS
        self._panes: list[pl.DataFrame] = []

    def take(self, keys: pl.DataFrame, hashes: Hashes) -> tuple[Lines | None, Numbers]:
        """Remove all lines of distinct keys; return them and the place of each line's key.

        Lines are in order of key and number.
        """
        found = self.lines.find(keys, hashes)
        if not found.slot.size:
            return None, found.key
        order = np.lexsort((found.facts[NUMBER], found.key))
        slot, key = found.slot[order], found.key[order]
        lines = Lines(
            lines_at(keys, key), hashes[key], found.facts.take(order), self.lines.partials(slot)
        )
        self.lines.take(slot)
        return lines, key

    def put(self, lines: Lines) -> None:
        """Add all lines of keys that have none, in order of hash."""
        self.lines.put(lines, fresh=True)

    def record(self, now_ms: int, interval_ms: int) -> tuple[Lines | None, Numbers]:
        """Take the processing time of a segment; remove and return the lines of keys to publish.

        These are keys with rows that no pane shows, all recorded in earlier intervals.  The result
        is that of ``take``, with RECORDED = FOREVER_MS.
        """
        before_ms, self.now_ms = self.now_ms, now_ms
        none = np.empty(0, np.int64)
        if before_ms // interval_ms == now_ms // interval_ms:
            return None, none
        facts = self.lines.facts
        old = facts[RECORDED] // interval_ms < now_ms // interval_ms
        slots = np.flatnonzero(self.lines.alive & old & (facts[ROWS] > 0))
        if not slots.size:
            return None, none
        keys, hashes, _ = keys_of(self.lines.keys(slots), self.key)
        lines, key_of_line = self.take(keys, hashes)
        assert lines is not None, "lines that are alive were not found"
        lines.facts[RECORDED] = FOREVER_MS
        return lines, key_of_line

    def add_panes(self, panes: pl.DataFrame) -> None:
        """Keep panes until they are published."""
        self._panes.append(panes)

    def take_panes(self) -> list[pl.DataFrame]:
        """Return, once, the panes that rows fired."""
        panes, self._panes = self._panes, []
        return panes

    def changes(self) -> Changes:
        """Return all lines of the keys that changed since the last call."""
        fresh = self.lines.take_fresh()
        return {RUNS: self.lines.lines(fresh).frame()} if fresh.size else {}

    def snapshot(self) -> Iterator[Changes]:
        """Return all lines."""
        return ({RUNS: lines} for lines in self.lines.snapshot())

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return self.lines.size_bytes()

    def open_windows(self) -> int:
        """Return the number of lines."""
        return self.lines.live

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return no bounds: rows close the windows, and time never does."""
        return ()

    def apply(self, changes: Changes) -> None:
        """Replace all lines of the keys in the changes."""
        if RUNS not in changes:
            return
        lines = Lines.of_frame(changes[RUNS], self.key, self.facts).in_order()
        keys = lines.keys.unique(maintain_order=True)
        self.take(keys, hashes_of(keys))
        self.lines.put(lines, fresh=False)

    def purge(self, _clock_ms: int) -> None:
        """Do nothing: no row is late, so every line stays."""

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self._panes, "panes were not published"
        self.lines.validate()
        live = list(self.lines.snapshot())
        if live:
            lines = pl.concat(live, how="diagonal")
            assert not lines.select(*self.key, NUMBER).is_duplicated().any(), (
                "a run is stored twice"
            )
            open_runs = lines.filter(pl.col(NUMBER) == pl.col(NUMBER).max().over(self.key))
            empty = lines.filter(pl.col(COUNT if COUNT in lines.columns else ROWS) == 0)
            assert empty.height <= open_runs.height, "an empty run is not the open one"
