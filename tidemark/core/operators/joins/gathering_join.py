"""The join that gives one row for each left row: aggregates of its partners, or the first of them.

See docs/semantics.md, "One row for each left row".  A left row is published when it is due, with
all partners that can come.  So nothing is withdrawn, and the order of the log does not show.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS as FOLDED
from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.aggregates.chosen_row import comparable, rank_of
from tidemark.core.operators.joins.new_rows import NewRows, columns_of
from tidemark.core.operators.joins.pairs import ranges_of_rows
from tidemark.core.operators.joins.results import Results, named
from tidemark.core.operators.joins.side_rows import SideRows
from tidemark.core.operators.joins.state import JoinState
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.joins.time_index import counts_of, find, pairs_of
from tidemark.core.operators.operator import Frames
from tidemark.core.rows.expression import output_types
from tidemark.core.rows.row_values import row_values
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at, order_by
from tidemark.core.state.keyed_lines import Numbers, same_keys
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW

_ROW = "@row"  # number of the left row
_MOST_PAIRS = 1 << 20
"""Pairs that are read at once, unless one row has more."""


@dataclass(frozen=True)
class First:
    """The first partner of each left row: the one with the least ``by``; null comes last.

    Ties, and rows without ``by``, are in order of event time and identity.  ``by`` is over the key
    and the names of results.
    """

    by: pl.Expr | None = None


Gathering = First | Aggregation
"""What a left row shows of its partners; an aggregation is over the key and names of results."""


@dataclass(frozen=True)
class GatheredResults(Results):
    """Makes the results of left rows and their partners."""

    gathering: Gathering = First()

    @cached_property
    def values(self) -> dict[str, pl.DataType]:
        """The columns of results that come from the sides, with types."""
        of_partners = self.gathering
        right = self.right.results if isinstance(of_partners, First) else of_partners.types
        return {**self.left.results, **right}

    def of_left(
        self, places: Numbers, row: Numbers, partner: Numbers, state: JoinState
    ) -> pl.DataFrame:
        """Return the results of left rows.

        ``row``, ``partner``: of each candidate pair, the number of the left row, and the place.
        """
        rows, partners = state.left.rows(places), state.right.rows(partner)
        keys = columns_of(rows, self.key)
        own = keys.hstack(named(rows, self.left))
        values = lines_at(own, row).hstack(named(partners, self.right))
        holds = same_keys(columns_of(values, self.key), columns_of(partners, self.key))
        left, right = state.left.ids(places).at(row), state.right.ids(partner)
        holds &= (left.high != right.high) | (left.low != right.low)
        holds &= self.is_met(values)
        if isinstance(self.gathering, Aggregation):
            holds[[*self.gathering.refusals(values)]] = False
        some = np.flatnonzero(holds)
        values, row, partner = lines_at(values, some), row[some], partner[some]
        order = self._order(values, row, partner, state.right)
        gathered = self._gathered(lines_at(values, order), row[order], places.size)
        whole = own.hstack(gathered.get_columns())
        results = self.frame(whole, self.ids_alone(0, places, state), state.left.times_ms(places))
        if self.how == "left":
            return results
        return results.filter(pl.Series(np.bincount(row, minlength=places.size) > 0))

    @cached_property
    def _by_type(self) -> pl.DataType:
        """The type of ``by``."""
        assert isinstance(self.gathering, First)
        assert self.gathering.by is not None
        key = {name: self.left.columns[name] for name in self.key}
        columns = {**key, **self.left.results, **self.right.results}
        (dtype,) = output_types([self.gathering.by], columns, "by").values()
        return dtype

    def _order(
        self, values: pl.DataFrame, row: Numbers, partner: Numbers, right: SideRows
    ) -> Numbers:
        """Return the order of pairs: by left row, ``by``, time of the partner, and identity."""
        at_ms, low = right.at_ms(partner), right.ids(partner).low
        by = self.gathering.by if isinstance(self.gathering, First) else None
        if by is None:
            return np.lexsort((low, at_ms, row))
        first_by, _ = row_values(by, values, self._by_type)
        found = comparable(first_by)
        return order_by((pl.Series(row), rank_of(found), found, pl.Series(at_ms), pl.Series(low)))

    def _gathered(self, values: pl.DataFrame, row: Numbers, size: int) -> pl.DataFrame:
        """Return what ``size`` left rows show of their partners, which are in order."""
        if isinstance(self.gathering, First):
            held, first = np.unique(row, return_index=True)
            shown = columns_of(values, self.right.results)
            at = np.full(size, first.size)
            at[held] = np.arange(first.size)
            nothing = pl.DataFrame(schema=shown.schema).clear(1)
            return lines_at(pl.concat([lines_at(shown, first), nothing]), at)
        aggregation, order = self.gathering, np.arange(row.size)
        rows = values.hstack(
            [
                pl.Series(_ROW, row),
                pl.Series(EVENT_TIME, order),  # pairs are in order already
                pl.Series(SOURCE, [""]).new_from_index(0, row.size),
                pl.Series(OFFSET, order),
                pl.Series(SUB_ROW, np.zeros(row.size, np.int32)),
            ]
        )
        partials = aggregation.partials(rows, (_ROW,))
        alone = np.setdiff1d(np.arange(size), row)
        if alone.size:
            none = pl.DataFrame({_ROW: alone, FOLDED: np.zeros(alone.size, np.int64)})
            partials = aggregation.with_empty_groups(pl.concat([partials, none], how="diagonal"))
        return aggregation.values(partials.sort(_ROW))


@dataclass(frozen=True)
class GatheringJoin(StreamJoin):
    """The join of two inputs that gives one row for each left row, once it is due.

    ``how``: "left", or "inner" without the rows that have no partner.  ``gathering``: what a row
    shows of its partners.  Results are only appended, and rows stand at their own times.
    """

    gathering: Gathering = First()

    @classmethod
    def of(cls, join: StreamJoin, what: Gathering) -> "GatheringJoin":
        """Return the join whose left rows gather their partners."""
        own = {field.name: getattr(join, field.name) for field in fields(StreamJoin)}
        return cls(**own, gathering=what)

    def __post_init__(self) -> None:
        """Check what the language has made sure of."""
        assert self.how in ("inner", "left"), self.how
        assert not self.on_close, "results are final"
        assert self.windows is None, "rows stand at their own times"

    @cached_property
    def _results(self) -> GatheredResults:
        return GatheredResults(
            self.key, self.left, self.right, self.how, False, self.condition, None, self.gathering
        )

    def open(self, store: BlockStore = IN_MEMORY, /) -> JoinState:
        """Return empty state."""
        upper_ms = None if self.upper is not None else self.upper_ms
        left = self._spec("left", self.left, upper_ms, tracks=False, waits=True)
        right = self._spec("right", self.right, -self.lower_ms, tracks=False, waits=False)
        right = replace(right, read_ms=max(self.upper_ms, 0))
        return JoinState(SideRows(left, store), SideRows(right, store))

    def process(self, sides: Frames, state: JoinState) -> Frames:
        """Take rows; they publish nothing at once."""
        left, right, _, _, others = self._take(sides, state)
        state.left.put(left.new)
        state.right.put(right.new)
        return others

    def _due(self, places: Sequence[Numbers], state: JoinState) -> pl.DataFrame:
        """Return the results of left rows that are due, in order of time and identity."""
        due, _ = places
        due = due[np.lexsort((state.left.ids(due).low, state.left.times_ms(due)))]
        facts = state.left.facts(due)
        keyed = NewRows.of(columns_of(state.left.rows(due), self.key), facts, self.key).keyed
        low_ms, high_ms = facts.at_ms + self.lower_ms, facts.at_ms + facts.reach_ms
        matches = find(keyed, low_ms, high_ms, state.right.runs)
        row, partner = pairs_of(matches)
        order = np.argsort(row, kind="stable")
        row, partner = row[order], partner[order]
        after = np.cumsum(counts_of(matches, due.size))
        made = []
        for begin, stop in ranges_of_rows(after, _MOST_PAIRS):
            first, last = np.searchsorted(row, (begin, stop))
            some = row[first:last] - begin
            made.append(self._results.of_left(due[begin:stop], some, partner[first:last], state))
        return pl.concat(made)
