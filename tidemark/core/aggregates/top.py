"""top_k: the most frequent values with their counts, or the values with the largest ``by``.

With ``ties``, also those that tie with the k-th, at most ``MOST_TIES`` in all.  value_counts: all
values with their counts.

The part of the most frequent values is ``counts``: structs of value and count, one per distinct
value.  The part of the largest is ``rows``: at most k structs of the order's fields, ``rank``,
``by`` and ``value``.  See docs/semantics.md, "Aggregates".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Columns
from tidemark.core.aggregates.basic import ORDER, ColumnFunction, order_columns
from tidemark.core.aggregates.chosen_row import comparable, rank_of
from tidemark.core.aggregates.lists import (
    LIST,
    concatenated,
    flattened,
    is_scalar,
    single_item_lists,
    structs,
    summed_counts,
    unflattened,
)
from tidemark.core.aggregates.runs import Runs
from tidemark.core.rows.row_size import item_counts
from tidemark.errors import PipelineError

MOST_TIES = 10_000
"""The largest number of values of a list with ``ties``, so that a pane and its state are bounded.

Of more values the first count, in the order of the list.
"""

RANK = "rank"
"""The field of a listed value with its place: from 1, equal values alike if ``ties``."""

_TIED = ("rank", "by")
"""The fields of a row kept in which rows that tie are equal."""

_BY = ("rank", "by", *ORDER)
_DESCENDING = (False, True, *(False for _ in ORDER))
"""The order of the rows kept: which of the fields descend."""

PLACE = "@place"
"""Int64 column beside flattened lists: the rank of each element in its list."""


@dataclass(frozen=True)
class _Top(ColumnFunction):
    """Base of both kinds: ``k`` values, or more with ``ties``.

    ``ranks``: whether the list shows the rank of each value.
    """

    k: int
    ties: bool = field(default=False, kw_only=True)
    ranks: bool = field(default=False, kw_only=True)

    _k_option = "k"

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise PipelineError(f"{self}: {self._k_option} {self.k!r} is not an integer from 1 on")
        if self.ties and self.k > MOST_TIES:
            raise PipelineError(f"{self}: with ties=True k is at most {MOST_TIES:,}")

    def _options(self) -> str:
        return f"{', ties=True' if self.ties else ''}{', ranks=True' if self.ranks else ''}"

    def _list_of(self, fields: dict[str, pl.DataType]) -> pl.DataType:
        return pl.List(pl.Struct({**({RANK: pl.Int64()} if self.ranks else {}), **fields}))

    def _best(self, ordered: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return the first values of each list, with their ranks as PLACE.

        ``ordered``: with LIST, sorted.  ``by``: the columns in which values that tie are equal.
        """
        index = ordered[LIST].to_numpy()
        nth = np.arange(index.size) - np.searchsorted(index, index)
        if not self.ties:
            chosen = nth < self.k
            return ordered.with_columns(pl.Series(PLACE, nth + 1)).filter(pl.Series(chosen))
        columns = [pl.col(name) for name in (LIST, *by)]
        new = pl.any_horizontal(column.ne_missing(column.shift()) for column in columns)
        starts = ordered.select(new.fill_null(value=True)).to_series().to_numpy()
        first = np.maximum.accumulate(np.where(starts, np.arange(index.size), 0))
        place = nth[first] + 1
        chosen = (place <= self.k) & (nth < MOST_TIES)
        return ordered.with_columns(pl.Series(PLACE, place)).filter(pl.Series(chosen))

    def _shown(self, best: pl.DataFrame, fields: Sequence[str], height: int) -> pl.Series:
        """Return the lists of the best values, as structs of ``fields``."""
        rank = [pl.col(PLACE).alias(RANK)] if self.ranks else []
        return unflattened(best[LIST].to_numpy(), best.select(*rank, *fields).to_struct(), height)

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "top_k"


@dataclass(frozen=True)
class MostFrequent(_Top):
    """The most frequent values; of equally frequent ones, the least value first."""

    def __str__(self) -> str:
        return f'top_k("{self.column}", {self.k}{self._options()})'

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return a list of structs of value and count."""
        found = self.input_type(name, columns)
        if not is_scalar(found):
            raise self.unsuitable(name, columns, "numbers, strings, Booleans or times")
        return self._list_of({"value": found, "count": pl.Int64()})

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each value with count 1, as a list of one."""
        values = comparable(rows[self.column])
        ones = pl.Series(np.ones(rows.height, np.int64))
        counted = pl.DataFrame({"value": values, "count": ones})
        return [single_item_lists(structs(counted, values), f"{name}.counts")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.counts")]

    def compact(self, name: str, partials: pl.DataFrame) -> list[pl.Series]:
        """Return the values with their counts added up."""
        return [summed_counts(partials[f"{name}.counts"])]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the k most frequent values with their counts."""
        index, flat = flattened(partials[f"{name}.counts"])
        counts = flat.struct.unnest().with_columns(pl.Series(LIST, index))
        by = [LIST, "count", "value"]
        best = self._best(counts.sort(by, descending=[False, True, False]), ["count"])
        return self._shown(best, ["value", "count"], partials.height)


@dataclass(frozen=True)
class ValueCounts(MostFrequent):
    """All values with counts, as MostFrequent lists them; null if there are more than ``k``.

    State holds the ``k + 1`` least values at most: one value too many decides that it is null.
    """

    _k_option = "limit"

    def __str__(self) -> str:
        return f'value_counts("{self.column}", limit={self.k})'

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "value_counts"

    def compact(self, name: str, partials: pl.DataFrame) -> list[pl.Series]:
        """Return the values with their counts added up; of too many the least."""
        (counts,) = super().compact(name, partials)
        return [counts.list.head(self.k + 1)]

    def value(self, name: str, partials: pl.DataFrame, columns: Columns) -> pl.Series:
        """Return the values with their counts, the most frequent first."""
        few = partials[f"{name}.counts"].list.len().fill_null(0) <= self.k
        return pl.select(pl.when(few).then(super().value(name, partials, columns))).to_series()


@dataclass(frozen=True)
class Largest(_Top):
    """The values of the rows with the largest ``by``; of equal ones, the first row first."""

    by: str

    def __str__(self) -> str:
        return f'top_k("{self.column}", {self.k}, by="{self.by}"{self._options()})'

    @property
    def skips_nulls_of(self) -> tuple[str, ...]:
        """``by``: rows where it is null do not count."""
        return (self.by,)

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return a list of structs of value and by."""
        by = self.input_type(name, columns, self.by)
        if not is_scalar(by):
            needs = "numbers, strings, Booleans or times"
            raise self.unsuitable(name, columns, needs, self.by)
        return self._list_of({"value": self.input_type(name, columns), "by": by})

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each value with ``by`` and the order of its row, as a list of one."""
        by = comparable(rows[self.by])
        fields = {"rank": rank_of(by), "by": by, "value": rows[self.column]}
        return [
            single_item_lists(
                structs(order_columns(rows).with_columns(**fields), by), f"{name}.rows"
            )
        ]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.rows")]

    def running(self, name: str, partials: pl.DataFrame, runs: Runs) -> list[pl.Series] | None:
        """Return the k largest rows of each run so far; None with ties, which may be many."""
        if self.ties:
            return None
        lists = partials[f"{name}.rows"]
        index, flat = flattened(lists)
        order = flat.struct.unnest().select(pl.arg_sort_by(_BY, descending=_DESCENDING))
        kept, line = runs.most(order.to_series().cast(pl.Int64).to_numpy(), index, self.k)
        return [unflattened(line, flat[kept], lists.len())]

    def compact(self, name: str, partials: pl.DataFrame) -> list[pl.Series]:
        """Return the k largest rows, in order."""
        lists = partials[f"{name}.rows"]
        if item_counts(lists).max(initial=0) <= 1:
            return []
        index, flat = flattened(lists)
        rows = flat.struct.unnest().with_columns(pl.Series(LIST, index))
        rows = rows.sort(LIST, *_BY, descending=[False, *_DESCENDING])
        best = self._best(rows, _TIED)
        kept = best.drop(LIST, PLACE).to_struct(lists.name)
        return [unflattened(best[LIST].to_numpy(), kept, lists.len())]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the values of the rows kept."""
        index, flat = flattened(partials[f"{name}.rows"])
        kept = flat.struct.unnest().with_columns(pl.Series(LIST, index))
        return self._shown(self._best(kept, _TIED), ["value", "by"], partials.height)
