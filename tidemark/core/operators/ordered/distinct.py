"""Distinct rows: the first of each id, and the next one only after a time.

See docs/semantics.md, "Distinct rows".  State is the time of the row kept last, by id.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.operators.ordered.operator import RowRule
from tidemark.core.operators.ordered.state import FACTS, TIME, LastRows, last_of_groups
from tidemark.core.operators.ports import shown_key
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.doubling import ancestors_of
from tidemark.core.state.keyed_lines import Lines, Mask, Numbers, keys_of
from tidemark.core.time.duration import duration_text
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS


@dataclass(frozen=True)
class Distinct(RowRule):
    """Keep a row whose id had no kept row in the time ``within_ms`` before; ``by``: the id."""

    by: tuple[str, ...]
    within_ms: int

    def __str__(self) -> str:
        names = ", ".join(f'"{name}"' for name in shown_key(self.by))
        return f'distinct_by({names}, within="{duration_text(self.within_ms)}")'

    @property
    def added(self) -> Mapping[str, pl.DataType]:
        """No columns."""
        return {}

    @property
    def reads(self) -> frozenset[str]:
        """The columns of the id."""
        return frozenset(self.by)

    @property
    def name_parts(self) -> tuple[str, ...]:
        """The id and the time."""
        return f"distinct-{duration_text(self.within_ms)}", "-".join(shown_key(self.by))

    def open(self, store: BlockStore = IN_MEMORY) -> LastRows:
        """Return empty state."""
        return LastRows(self.by, self.within_ms, store)

    def take(self, rows: pl.DataFrame, state: LastRows) -> pl.DataFrame:
        """Return the rows that are kept."""
        ids, hashes, id_of_row = keys_of(rows, self.by)
        order = np.argsort(id_of_row, kind="stable")
        of, at_ms = id_of_row[order], rows[EVENT_TIME].to_numpy()[order]
        found = state.find(ids, hashes)
        kept_ms = np.full(hashes.size, NEVER_MS)
        kept_ms[found.key] = found.facts[TIME]
        kept = np.flatnonzero(self._kept(of, at_ms, kept_ms))
        last = kept[last_of_groups(of[kept])]
        facts = np.empty(last.size, FACTS)
        facts[ROWS], facts[TIME] = 1, at_ms[last]
        partials = pl.DataFrame({ROWS: facts[ROWS]})
        state.replace(Lines(lines_at(ids, of[last]), hashes[of[last]], facts, partials))
        return rows[np.sort(order[kept])]

    def _kept(self, of: Numbers, at_ms: Numbers, kept_ms: Numbers) -> Mask:
        """Mark the rows that are kept; rows are in order of id and time.

        Each row points to the first one of its id that is kept if this one is.  So the kept rows
        are those on the way from the first kept row of each id.
        """
        times = np.unique(at_ms)
        place = of * (times.size + 1) + np.searchsorted(times, at_ms)

        def first_from(group: Numbers, from_ms: Numbers) -> Numbers:
            wanted = group * (times.size + 1) + np.searchsorted(times, from_ms)
            found: Numbers = np.searchsorted(place, wanted)
            return found

        then = first_from(of, at_ms + self.within_ms)
        has_next = then < np.searchsorted(of, of, "right")
        every, groups = np.arange(of.size), np.arange(kept_ms.size)
        from_ms = np.where(kept_ms == NEVER_MS, NEVER_MS, kept_ms + self.within_ms)
        first = first_from(groups, from_ms)
        begins = np.zeros(of.size, np.bool_)
        begins[first[first < np.searchsorted(of, groups, "right")]] = True
        return ancestors_of(np.where(has_next, then, every), begins)
