"""The common part of operators on windows in order of arrival.

See docs/semantics.md, "Windows in order of arrival".  The rows of a key are split into *runs* of
consecutive rows (core/windows/arrival.py).  Windows close by rows, never by the clock.  So folding
makes the panes, and publishing only returns them.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.arrival.state import RECORDED, ArrivalState
from tidemark.core.operators.operator import Frames, WindowBody, missed
from tidemark.core.operators.ports import PANES, Port, late_port, pane_port
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Facts, Hashes, Lines, Numbers, keys_of
from tidemark.core.windows.arrival import ArrivalWindowKind, RowsByKey, RunAssignment
from tidemark.core.windows.pane import pane_schema
from tidemark.core.windows.trigger import Every, EveryProcessingTime


@dataclass(frozen=True, slots=True)
class FoldInput:
    """Rows of a segment by key, their runs, and the stored lines of their keys.

    ``keys`` and ``hashes``: of the distinct keys.  ``order``: the place in the segment of each row
    of ``by_key``.  ``key_of_line``: the place of the key of each stored line.
    """

    keys: pl.DataFrame
    hashes: Hashes
    order: Numbers
    stored: Lines | None
    key_of_line: Numbers
    by_key: RowsByKey
    assignment: RunAssignment


@dataclass(frozen=True)
class ArrivalBody(WindowBody):
    """Aggregate each key's rows in windows by their order in the log.

    ``every``: when open windows are published; None: never.
    """

    windows: ArrivalWindowKind
    aggregation: Aggregation
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    every: Every | None = None

    @property
    @abstractmethod
    def facts(self) -> np.dtype[np.void]:
        """The type of the facts of a stored line, which come after its key and partials."""

    @abstractmethod
    def heads(self, keys: int, stored: Lines | None, key_of_line: Numbers) -> Facts:
        """Return the facts of each key's open run from its stored lines; zeros for a new key."""

    @abstractmethod
    def folded(self, fold_input: FoldInput) -> tuple[Lines, pl.DataFrame]:
        """Return the lines to store for the keys that have rows, and the panes of the rows."""

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of panes and late rows; nothing bounds the age of a pane."""
        panes = pane_port(
            self.key,
            self.columns,
            self.aggregation.types,
            numbered=True,
            discarding=self.discards,
        )
        return panes, late_port(self.key, self.columns)

    @property
    def discards(self) -> bool:
        """Whether a pane holds only rows that no earlier pane of its window has shown."""
        return False

    def open(self, store: BlockStore = IN_MEMORY) -> ArrivalState:
        """Return empty state."""
        return ArrivalState(self.key, self.facts, store)

    def fold(self, rows: pl.DataFrame, state: ArrivalState) -> pl.DataFrame:
        """Add rows to their windows; no row is late."""
        if not rows.is_empty():
            self._add(rows, state)
        none = np.empty(0, np.int64)
        return missed(rows.clear(), none, none, none)

    def _add(self, rows: pl.DataFrame, state: ArrivalState) -> None:
        keys, hashes, key_of_row = keys_of(rows, self.key)
        stored, key_of_line = state.take(keys, hashes)
        order = np.argsort(key_of_row, kind="stable")
        key = key_of_row[order]
        first = np.searchsorted(key, np.arange(keys.height))
        heads = self.heads(keys.height, stored, key_of_line)
        by_key = RowsByKey(lines_at(rows, order), key, first, heads)
        assignment = self.windows.assign_runs(by_key)
        lines, panes = self.folded(
            FoldInput(keys, hashes, order, stored, key_of_line, by_key, assignment)
        )
        if isinstance(self.every, EveryProcessingTime):
            lines.facts[RECORDED] = state.now_ms
        state.put(lines)
        state.add_panes(panes)

    def publish(self, state: ArrivalState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the panes that rows fired, in order of those rows, then of windows."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        panes = state.take_panes()
        if panes:
            return pl.concat(panes, how="vertical_relaxed")
        schema = pane_schema(self.key, self.columns, self.aggregation.value_types, numbered=True)
        return pl.DataFrame(schema=schema)

    def rests(self, state: ArrivalState, before_ms: int, clock_ms: int) -> bool:  # noqa: ARG002
        """Whether only rows fire panes, and not processing time."""
        return not isinstance(self.every, EveryProcessingTime)

    @property
    def can_portion(self) -> bool:
        """Whether the rows of a segment can be taken in portions: not by processing time."""
        return not isinstance(self.every, EveryProcessingTime)

    def flush(self, state: ArrivalState, clock_ms: int) -> Frames:
        """Return the panes that rows fired."""
        return {PANES: self.publish(state, clock_ms, clock_ms)}

    @property
    def has_bounded_panes(self) -> bool:
        """Whether every pane has a small size: no list or text is in it."""
        return not any(
            dtype.is_nested() or dtype in (pl.String, pl.Binary)
            for dtype in self.aggregation.types.values()
        )

    def closed(self, complete: Numbers) -> Numbers:
        """Return the number of closed windows for each number of complete runs."""
        closed = (complete - self.windows.runs) // self.windows.step + 1
        return np.maximum(closed, 0)


def last_rows(by_key: RowsByKey) -> Numbers:
    """Return the place of each key's last row."""
    return np.append(by_key.first[1:], by_key.key.size) - 1


def complete_runs(by_key: RowsByKey, assignment: RunAssignment) -> Numbers:
    """Return the number of complete runs of each key."""
    last = last_rows(by_key)
    complete: Numbers = assignment.number[last] + assignment.completes[last]
    return complete
