"""What operators on windows in order of arrival have in common.

Windows close by rows, never by the clock, so panes come of folding; publishing hands them on.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.arrival.state import RECORDED, ArrivalState
from tidemark.core.operators.operator import WindowBody, missed
from tidemark.core.operators.ports import Port, window_ports
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Facts, Hashes, Lines, Numbers, keys_of
from tidemark.core.windows.arrival import ArrivalWindowKind, RowsByKey, RunAssignment
from tidemark.core.windows.pane import pane_schema
from tidemark.core.windows.trigger import Every, EveryProcessingTime


@dataclass(frozen=True, slots=True)
class Folding:
    """Rows of a segment by key, cut into slices, with the lines of their keys that were stored.

    ``keys`` and ``hashes``: of the different keys; ``order``: of the sorted rows, their places in
    the segment; ``key_of_line``: of each stored line, the place of its key.
    """

    keys: pl.DataFrame
    hashes: Hashes
    order: Numbers
    stored: Lines | None
    key_of_line: Numbers
    arrived: RowsByKey
    cut: RunAssignment


@dataclass(frozen=True)
class ArrivalBody(WindowBody):
    """Aggregate each key's rows in windows by their order in the log.

    ``every``: when windows are published that have not closed.
    """

    windows: ArrivalWindowKind
    aggregation: Aggregation
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    every: Every | None = None

    @property
    @abstractmethod
    def facts(self) -> np.dtype[np.void]:
        """Type of what a line of state holds besides key and partials."""

    @abstractmethod
    def heads(self, keys: int, stored: Lines | None, key_of_line: Numbers) -> Facts:
        """Return of each key the slice that is open, as its stored lines tell; zeros of none."""

    @abstractmethod
    def folded(self, folding: Folding) -> tuple[Lines, pl.DataFrame]:
        """Return the lines to be kept of the keys that have rows, and the panes they bring."""

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of panes and late rows; nothing bounds how old a pane is."""
        discards = self.discards
        return window_ports(
            self.key, self.columns, self.aggregation.types, numbered=True, discarding=discards
        )

    @property
    def discards(self) -> bool:
        """Whether a pane holds only what none before has shown."""
        return False

    def open(self, store: BlockStore = IN_MEMORY) -> ArrivalState:
        """Return state that holds nothing."""
        return ArrivalState(self.key, self.facts, store)

    def fold(self, rows: pl.DataFrame, state: ArrivalState) -> pl.DataFrame:
        """Add rows to their windows; no row is late."""
        if not rows.is_empty():
            self._add(rows, state)
        none = np.empty(0, np.int64)
        return missed(rows.clear(), none, none, 0)

    def _add(self, rows: pl.DataFrame, state: ArrivalState) -> None:
        keys, hashes, key_of_row = keys_of(rows, self.key)
        stored, key_of_line = state.take(keys, hashes)
        order = np.argsort(key_of_row, kind="stable")
        key = key_of_row[order]
        first = np.searchsorted(key, np.arange(keys.height))
        heads = self.heads(keys.height, stored, key_of_line)
        arrived = RowsByKey(lines_at(rows, order), key, first, heads)
        cut = self.windows.cut(arrived)
        lines, panes = self.folded(Folding(keys, hashes, order, stored, key_of_line, arrived, cut))
        if isinstance(self.every, EveryProcessingTime):
            lines.facts[RECORDED] = state.now_ms
        state.put(lines)
        state.add_panes(panes)

    def publish(self, state: ArrivalState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the panes that the rows brought, in order of those rows, then of windows."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        panes = state.take_panes()
        if panes:
            return pl.concat(panes, how="vertical_relaxed")
        schema = pane_schema(self.key, self.columns, self.aggregation.types, numbered=True)
        return pl.DataFrame(schema=schema)

    def closed(self, complete: Numbers) -> Numbers:
        """Count the windows that are closed where so many slices are complete."""
        closed = (complete - self.windows.runs) // self.windows.step + 1
        return np.maximum(closed, 0)


def last_rows(arrived: RowsByKey) -> Numbers:
    """Return of each key the place of its last row."""
    return np.append(arrived.first[1:], arrived.key.size) - 1


def complete_slices(arrived: RowsByKey, cut: RunAssignment) -> Numbers:
    """Count of each key the slices that are complete."""
    last = last_rows(arrived)
    complete: Numbers = cut.number[last] + cut.completes[last]
    return complete
