"""Values of a row and the rows of its key before it: the value before, the difference, the sum.

See docs/semantics.md, "Values of the rows before".  State is, by key, the time and the values of
the last row, and exact sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.aggregates.sums import Sum
from tidemark.core.operators.ordered.operator import RowRule
from tidemark.core.operators.ordered.state import FACTS, TIME, LastRows, last_of_groups
from tidemark.core.operators.ordered.values import CumSum, Prev, RowValue, differences
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at, stacked
from tidemark.core.state.keyed_lines import Lines, Mask, Numbers, keys_of
from tidemark.core.state.prefixes import group_numbers, prefixes
from tidemark.core.time.duration import duration_text
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS

_BEFORE = "@before."
"""Begins the name of a stored column: the value in the last row of the key."""


class _Before(NamedTuple):
    """The stored lines that rows go on from.

    ``key``: of each line, among the keys of the rows.  ``partials``: what the lines hold.
    """

    key: Numbers
    partials: pl.DataFrame


@dataclass(frozen=True)
class Scan(RowRule):
    """Add values of a row and the rows of its key before it.

    ``columns``: of the stream, with types.  ``max_silence_ms``: a key that has had no row for that
    long begins anew; None: never.
    """

    values: Mapping[str, RowValue]
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    max_silence_ms: int | None = None

    def __str__(self) -> str:
        named = [f"{name}={value}" for name, value in self.values.items()]
        if self.max_silence_ms is not None:
            named.append(f'max_silence="{duration_text(self.max_silence_ms)}"')
        return f"scan({', '.join(named)})"

    @cached_property
    def added(self) -> Mapping[str, pl.DataType]:
        """The values, with types."""
        return {name: value.type(name, self.columns) for name, value in self.values.items()}

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the key and of the values."""
        return frozenset([*self.key, *(value.column for value in self.values.values())])

    @property
    def name_parts(self) -> tuple[str, ...]:
        """The names of the values."""
        return "scan", "-".join(self.values)

    @cached_property
    def _sums(self) -> Aggregation | None:
        sums = {
            name: Sum(value.column)
            for name, value in self.values.items()
            if isinstance(value, CumSum)
        }
        return Aggregation(sums, self.columns) if sums else None

    @cached_property
    def _remembered(self) -> tuple[str, ...]:
        """The columns whose values in the row before are needed."""
        each = (value.column for value in self.values.values() if not isinstance(value, CumSum))
        return tuple(dict.fromkeys(each))

    def open(self, store: BlockStore = IN_MEMORY) -> LastRows:
        """Return empty state."""
        return LastRows(self.key, self.max_silence_ms, store)

    def take(self, rows: pl.DataFrame, state: LastRows) -> pl.DataFrame:
        """Return all rows with the values."""
        keys, hashes, key_of_row = keys_of(rows, self.key)
        order = np.argsort(key_of_row, kind="stable")
        of, by_key = key_of_row[order], lines_at(rows, order)
        at_ms = by_key[EVENT_TIME].to_numpy()
        found = state.find(keys, hashes)
        last_ms = np.full(keys.height, NEVER_MS)
        last_ms[found.key] = found.facts[TIME]
        begins = self._begins(of, at_ms, last_ms)
        goes_on = ~begins[np.searchsorted(of, found.key)]
        before = _Before(found.key[goes_on], state.partials(found.slot[goes_on]))
        made = self._before(by_key, of, begins, before)
        sums = self._running(by_key, of, begins, before)
        last = last_of_groups(of)
        facts = np.empty(last.size, FACTS)
        facts[ROWS], facts[TIME] = sums[ROWS].to_numpy()[last], at_ms[last]
        stored = [by_key[name].alias(f"{_BEFORE}{name}") for name in self._remembered]
        partials = lines_at(sums.hstack(stored), last)
        state.replace(Lines(lines_at(keys, of[last]), hashes[of[last]], facts, partials))
        added = by_key.hstack(self._values(by_key, made, sums))
        return lines_at(added, np.argsort(order))

    def _begins(self, of: Numbers, at_ms: Numbers, last_ms: Numbers) -> Mask:
        """Mark the rows before which a key has no row, or only one that is too long ago."""
        before_ms = np.append(NEVER_MS, at_ms[:-1])
        first = np.searchsorted(of, np.arange(last_ms.size))
        before_ms[first] = last_ms
        begins: Mask = before_ms == NEVER_MS
        if self.max_silence_ms is not None:
            begins |= at_ms - self.max_silence_ms >= before_ms
        return begins

    def _before(
        self, by_key: pl.DataFrame, of: Numbers, begins: Mask, before: _Before
    ) -> dict[str, pl.Series]:
        """Return the values in the row before each row, null where a key begins."""
        place = np.arange(of.size) - 1
        place[np.searchsorted(of, before.key)] = of.size + np.arange(before.key.size)
        index = pl.Series(np.where(begins, 0, place))
        known = pl.Series(~begins)
        made = {}
        for name in self._remembered:
            values = by_key[name]
            if before.key.size:
                values = pl.concat([values, before.partials[f"{_BEFORE}{name}"].alias(name)])
            made[name] = pl.select(pl.when(known).then(values.gather(index))).to_series()
        return made

    def _running(
        self, by_key: pl.DataFrame, of: Numbers, begins: Mask, before: _Before
    ) -> pl.DataFrame:
        """Return the running sums of each row as partials, with ROWS."""
        if self._sums is None:
            return pl.DataFrame({ROWS: np.ones(of.size, np.int64)})
        rows = self._sums.row_partials(by_key)
        kept = [name for name in before.partials.columns if not name.startswith(_BEFORE)]
        lines = stacked([before.partials.select(kept), rows]) if before.key.size else rows
        place = np.append(np.full(before.key.size, -1), np.arange(of.size))
        order = np.lexsort((place, np.append(before.key, of)))
        starts = np.append(np.ones(before.key.size, np.bool_), begins)[order]
        running = prefixes(self._sums, lines_at(lines, order), group_numbers(starts))
        return lines_at(running, np.flatnonzero(place[order] >= 0))

    def _values(
        self, by_key: pl.DataFrame, before: Mapping[str, pl.Series], running: pl.DataFrame
    ) -> list[pl.Series]:
        sums = pl.DataFrame() if self._sums is None else self._sums.values(running)
        made = []
        for name, value in self.values.items():
            column = by_key[value.column]
            if isinstance(value, CumSum):
                known = pl.when(column.is_not_null()).then(sums[name])
                made.append(pl.select(known.alias(name)).to_series())
            elif isinstance(value, Prev):
                made.append(before[value.column].alias(name))
            else:
                made.append(differences(column, before[value.column]).alias(name))
        return made
