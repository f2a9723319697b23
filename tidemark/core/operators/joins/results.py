"""The results of a join: pairs, rows without a partner, and withdrawals of those."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.operators.identity import Ids, hex_texts, ids_of_pairs
from tidemark.core.operators.joins.new_rows import MATCHED, PUBLISHED, WAITING, columns_of
from tidemark.core.operators.joins.pairs import Pairs
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.state import JoinState
from tidemark.core.operators.ports import APPEND, ROWS, UPSERT, Port, RowTime
from tidemark.core.operators.rows import EVENT_TIME_MS, ID
from tidemark.core.rows.row_values import row_values
from tidemark.core.state.keyed_lines import Mask, Numbers, same_keys
from tidemark.core.time.row_watermarks import ORDER, SEGMENT
from tidemark.core.windows.pane import RETRACTED, REVISION
from tidemark.core.windows.window import AlignedWindows

START_MS, END_MS = "_window_start_ms", "_window_end_ms"
"""The columns of results of window joins with the bounds of their window."""


@dataclass(frozen=True)
class Results:
    """Makes results from rows in the state; see ``StreamJoin``."""

    key: tuple[str, ...]
    left: Side
    right: Side
    how: Kind
    on_close: bool
    condition: pl.Expr | None
    windows: AlignedWindows | None = None

    @cached_property
    def columns(self) -> dict[str, pl.DataType]:
        """The columns of results, with types."""
        changes = {REVISION: pl.Int64(), RETRACTED: pl.Boolean()} if self.on_close else {}
        key = {name: self.left.columns[name] for name in self.key}
        times = dict.fromkeys(self.instants, pl.Int64())
        return {ID: pl.String(), **key, **self.values, **times, **changes}

    @cached_property
    def nothing(self) -> pl.DataFrame:
        """No results."""
        return pl.DataFrame(schema=self.columns)

    def port(self, allowed_lateness_ms: int) -> Port:
        """Return the port of results."""
        return Port(
            ROWS,
            ROWS,
            self.columns,
            self.key,
            message_key=(ID,),
            identity=(ID,),
            row_time=RowTime(EVENT_TIME_MS),
            values=tuple(self.values),
            mode=UPSERT if self.on_close else APPEND,
            instants=frozenset(self.instants),
            holds_ms=allowed_lateness_ms,
        )

    @property
    def instants(self) -> tuple[str, ...]:
        """The columns of results that are times, in ms."""
        return (*((START_MS, END_MS) if self.windows is not None else ()), EVENT_TIME_MS)

    @cached_property
    def values(self) -> dict[str, pl.DataType]:
        """The columns of results that come from the sides, with types."""
        right = {} if self._left_only else self.right.results
        return {**self.left.results, **right}

    @property
    def _left_only(self) -> bool:
        return self.how in ("semi", "anti")

    def of_pairs(self, pairs: Pairs, state: JoinState, *, batched: bool) -> pl.DataFrame:
        """Return the results of pairs, each after the withdrawals that it makes necessary."""
        pairs, values = self._holding(pairs, state)
        before = [self._met(side, pairs, state) for side in (0, 1) if state.sides[side].tracks]
        if self._left_only:
            parts = before
        else:
            ids = ids_of_pairs(state.left.ids(pairs.left), state.right.ids(pairs.right))
            at_ms = np.maximum(state.left.at_ms(pairs.left), state.right.at_ms(pairs.right))
            own = self.frame(values, ids, at_ms)
            if not any(part.height for part in before):
                return own.hstack([pl.Series(SEGMENT, pairs.segment)]) if batched else own
            parts = [*before, _placed(own, pairs.segment, pairs.order)]
        # A stable sort: withdrawals come before the pairs of the same row.
        both = pl.concat(parts).sort(ORDER, maintain_order=True)
        return both.drop(ORDER) if batched else both.drop(ORDER, SEGMENT)

    def _holding(self, pairs: Pairs, state: JoinState) -> tuple[Pairs, pl.DataFrame]:
        """Return the pairs with equal keys for which the condition holds, and their values."""
        left_rows, right_rows = state.left.rows(pairs.left), state.right.rows(pairs.right)
        keys = columns_of(left_rows, self.key)
        holds = same_keys(keys, columns_of(right_rows, self.key))
        values = keys.hstack([*named(left_rows, self.left), *named(right_rows, self.right)])
        holds &= self.is_met(values)
        if holds.all():
            return pairs, values
        return pairs.at(holds), values.filter(pl.Series(holds))

    def is_met(self, values: pl.DataFrame) -> Mask:
        """Mark the pairs for which the condition holds; one on which it fails is not among them."""
        if self.condition is None:
            return np.ones(values.height, np.bool_)
        is_true, _ = row_values(self.condition, values, pl.Boolean())
        met: Mask = is_true.fill_null(value=False).to_numpy()
        return met

    def _met(self, number: int, pairs: Pairs, state: JoinState) -> pl.DataFrame:
        """Note which rows of a side have partners now; return the results that this changes.

        These are withdrawals, or with "semi" the rows; with ORDER and SEGMENT of the first pair.
        """
        side = state.sides[number]
        places, first = np.unique((pairs.left, pairs.right)[number], return_index=True)
        status = side.status(places)
        side.mark(places[status != MATCHED], MATCHED)
        changed = status == (WAITING if self.how == "semi" else PUBLISHED)
        places, first = places[changed], first[changed]
        order = pairs.order[first]
        sort = np.lexsort((side.ids(places).low, side.times_ms(places), order))
        results = self._alone(number, places[sort], state, withdrawn=self.how != "semi")
        return _placed(results, pairs.segment[first][sort], order[sort])

    def _alone(
        self, number: int, places: Numbers, state: JoinState, *, withdrawn: bool = False
    ) -> pl.DataFrame:
        """Return results of rows of one side; columns of the other side are null."""
        side = state.sides[number]
        declared = (self.left, self.right)[number]
        rows = side.rows(places)
        values = columns_of(rows, self.key).hstack(named(rows, declared))
        ids = self.ids_alone(number, places, state)
        return self.frame(values, ids, side.times_ms(places), withdrawn=withdrawn)

    def ids_alone(self, number: int, places: Numbers, state: JoinState) -> Ids:
        """Return the identities of results of rows of one side alone."""
        ids = state.sides[number].ids(places)
        return ids_of_pairs(*((ids, None) if number == 0 else (None, ids)))

    def frame(
        self, values: Iterable[pl.Series], ids: Ids, at_ms: Numbers, *, withdrawn: bool = False
    ) -> pl.DataFrame:
        """Return results with the columns of the port; missing values are null."""
        found = {column.name: column for column in values}
        found[ID], found[EVENT_TIME_MS] = hex_texts(ID, ids), pl.Series(EVENT_TIME_MS, at_ms)
        if self.windows is not None:
            found[START_MS] = pl.Series(START_MS, self.windows.start_of(at_ms + 1))
            found[END_MS] = pl.Series(END_MS, at_ms + 1)
        if self.on_close:
            found[REVISION] = pl.Series(REVISION, np.full(at_ms.size, 2 if withdrawn else 1))
            found[RETRACTED] = pl.Series(RETRACTED, np.full(at_ms.size, withdrawn))
        return pl.DataFrame(
            [
                found[name] if name in found else pl.Series(name, [], dtype).clear(at_ms.size)
                for name, dtype in self.columns.items()
            ]
        )

    def without_partner(self, places: Sequence[Numbers], state: JoinState) -> pl.DataFrame:
        """Return results of rows without a partner, by side, in order of time and identity."""
        parts = []
        for number, (side, some) in enumerate(zip(state.sides, places, strict=True)):
            sort = np.lexsort((side.ids(some).low, side.times_ms(some)))
            parts.append(self._alone(number, some[sort], state))
        if self.how == "full":
            return pl.concat(parts).sort(EVENT_TIME_MS, maintain_order=True)
        return parts[1] if self.how == "right" else parts[0]


def named(rows: pl.DataFrame, side: Side) -> list[pl.Series]:
    """Return the columns that results show, with their names there."""
    return [rows[column].alias(name) for column, name in side.shown.items()]


def _placed(results: pl.DataFrame, segment: Numbers, order: Numbers) -> pl.DataFrame:
    return results.hstack([pl.Series(SEGMENT, segment), pl.Series(ORDER, order)])
