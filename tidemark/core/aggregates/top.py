"""top_k: the most frequent values with their counts, or the values with the largest ``by``.

The part of the most frequent values is ``counts``: structs of value and count, one per distinct
value.  The part of the largest is ``rows``: at most k structs of the order's fields, ``rank``,
``by`` and ``value``.  See docs/semantics.md, "Aggregates".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Columns
from tidemark.core.aggregates.basic import ORDER, ColumnFunction, order_columns
from tidemark.core.aggregates.lists import (
    LIST,
    Numbers,
    concatenated,
    flattened,
    is_scalar,
    single_item_lists,
    structs,
    summed_counts,
    unflattened,
)
from tidemark.core.aggregates.min_max_by import comparable, rank_of
from tidemark.errors import PipelineError


@dataclass(frozen=True)
class _Top(ColumnFunction):
    """Base of both kinds: at most ``k`` values."""

    k: int

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise PipelineError(f"{self}: k {self.k!r} is not an integer from 1 on")

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "top_k"


@dataclass(frozen=True)
class MostFrequent(_Top):
    """The most frequent values; of equally frequent ones, the least value first."""

    def __str__(self) -> str:
        return f'top_k("{self.column}", {self.k})'

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return a list of structs of value and count."""
        found = self.input_type(name, columns)
        if not is_scalar(found):
            raise self.unsuitable(name, columns, "numbers, strings, Booleans or times")
        return pl.List(pl.Struct({"value": found, "count": pl.Int64()}))

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
        counts = counts.sort(by, descending=[False, True, False])
        best = counts.filter(pl.Series(_nth(counts[LIST].to_numpy()) < self.k))
        chosen = best.select("value", "count").to_struct()
        return unflattened(best[LIST].to_numpy(), chosen, partials.height)


@dataclass(frozen=True)
class Largest(_Top):
    """The values of the rows with the largest ``by``; of equal ones, the first row first."""

    by: str

    def __str__(self) -> str:
        return f'top_k("{self.column}", {self.k}, by="{self.by}")'

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
        return pl.List(pl.Struct({"value": self.input_type(name, columns), "by": by}))

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

    def compact(self, name: str, partials: pl.DataFrame) -> list[pl.Series]:
        """Return the k largest rows, in order."""
        lists = partials[f"{name}.rows"]
        index, flat = flattened(lists)
        rows = flat.struct.unnest().with_columns(pl.Series(LIST, index))
        descending = [False, False, True, *(False for _ in ORDER)]
        rows = rows.sort(LIST, "rank", "by", *ORDER, descending=descending)
        rows = rows.filter(pl.Series(_nth(rows[LIST].to_numpy()) < self.k))
        kept = rows.drop(LIST).to_struct(lists.name)
        return [unflattened(rows[LIST].to_numpy(), kept, lists.len())]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the values of the rows kept."""
        index, flat = flattened(partials[f"{name}.rows"])
        chosen = flat.struct.unnest().select("value", "by").to_struct()
        return unflattened(index, chosen, partials.height)


def _nth(index: Numbers) -> Numbers:
    """Return for each element its position in its list, from 0."""
    return np.arange(index.size) - np.searchsorted(index, index)
