"""Aggregates that hold values: count_distinct and collect.

One part: a list of values, of one element or none for a row.  A merge concatenates lists in any
order; ``collect`` restores the order when a pane is built.  State grows with the values kept:
distinct values for count_distinct, all values for collect.  See docs/semantics.md, "Aggregates".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidemark.core.aggregates.aggregate import Columns
from tidemark.core.aggregates.basic import (
    ARRIVAL_ORDER,
    ORDER,
    ColumnFunction,
    OrderedFunction,
    order_columns,
)

Numbers = npt.NDArray[np.int64]

LIST = "@list"
"""Int64 column beside flattened lists: the index of each element's list."""


def single_item_lists(values: pl.Series, name: str) -> pl.Series:
    """Return a list of one for each value; an empty list for null."""
    if not values.null_count():
        return values.reshape((values.len(), 1)).arr.to_list().alias(name)
    some = np.flatnonzero(values.is_not_null().to_numpy())
    return unflattened(some, values.gather(some).alias(name), values.len())


def concatenated(column: str) -> pl.Expr:
    """Return an expression that concatenates the lists of a group.

    It does nothing more to structs inside ``group_by``: polars 2.1 crashed when they were sorted
    or filtered there after an explode.  ``compact`` sorts and filters flat columns instead.
    """
    return pl.col(column).explode(empty_as_null=False, keep_nulls=False)


def flattened(lists: pl.Series) -> tuple[Numbers, pl.Series]:
    """Return the index of each element's list, and all elements; a null list is empty."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    flat = lists.explode(empty_as_null=False, keep_nulls=False)
    return np.repeat(np.arange(lengths.size), lengths), flat


def unflattened(index: Numbers, elements: pl.Series, height: int) -> pl.Series:
    """Return the lists that ``flattened`` took apart; ``index`` must ascend."""
    # Not pa.array(), which imports pandas: a fifth of a second in the first batch of a service.
    bounds = pl.Series(np.searchsorted(index, np.arange(height + 1))).to_arrow()
    array = elements.to_arrow(compat_level=pl.CompatLevel.oldest())
    lists = pl.from_arrow(pa.LargeListArray.from_arrays(bounds, array))
    assert isinstance(lists, pl.Series)
    dtype = pl.List(elements.dtype)
    return (lists if lists.dtype == dtype else lists.cast(dtype)).alias(elements.name)


def structs(fields: pl.DataFrame, values: pl.Series) -> pl.Series:
    """Return a struct of each row of ``fields``; null where ``values`` is null."""
    rows = fields.to_struct()
    if not values.null_count():
        return rows
    return pl.select(pl.when(values.is_not_null()).then(rows)).to_series()


def is_scalar(found: pl.DataType) -> bool:
    """Whether a type is scalar, so that values compare and hash: number, text, Boolean or time."""
    return found.is_numeric() or found.is_temporal() or found in (pl.String, pl.Boolean)


@dataclass(frozen=True)
class CountDistinct(ColumnFunction):
    """The number of distinct values that are not null.  Part: ``values``, each once.

    0.0 and -0.0 are one value, and so are all NaNs.
    """

    @property
    def function_name(self) -> str:
        """The name of the function that users write."""
        return "count_distinct"

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return Int64."""
        if not is_scalar(self.input_type(name, columns)):
            raise self.unsuitable(name, columns, "numbers, strings, Booleans or times")
        return pl.Int64()

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each value as a list of one."""
        return [single_item_lists(rows[self.column], f"{name}.values")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists, each value once."""
        return [concatenated(f"{name}.values").unique()]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the number of values."""
        return partials[f"{name}.values"].list.len().fill_null(0).cast(pl.Int64)


class Collect(OrderedFunction):
    """All values that are not null, as a list.  Part: ``values``, structs of order and value."""

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return a list of the column's type, which may be any."""
        return pl.List(self.input_type(name, columns))

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each value with the fields that order its row, as a list of one."""
        values = rows[self.column]
        fields = order_columns(rows, self.fields).with_columns(values.alias("value"))
        return [single_item_lists(structs(fields, values), f"{name}.values")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.values")]

    def value(self, name: str, partials: pl.DataFrame, columns: Columns) -> pl.Series:
        """Return the values in order."""
        index, ordered = in_row_order(partials[f"{name}.values"])
        values = ordered["value"].cast(columns[self.column])
        return unflattened(index, values, partials.height)


def in_row_order(lists: pl.Series) -> tuple[Numbers, pl.DataFrame]:
    """Flatten lists of structs that begin with the fields of an order, and sort each list by it.

    Returns the index of each element's list, and the elements as columns.
    """
    index, values = flattened(lists)
    fields = values.struct.unnest()
    order = ARRIVAL_ORDER if "arrival" in fields.columns else ORDER
    ordered = fields.with_columns(pl.Series(LIST, index)).sort(LIST, *order)
    return ordered[LIST].to_numpy(), ordered


def summed_counts(lists: pl.Series) -> pl.Series:
    """Return lists of structs of value and count, with counts added up, sorted by value."""
    index, flat = flattened(lists)
    counted = flat.struct.unnest().with_columns(pl.Series(LIST, index))
    totals = counted.group_by(LIST, "value").agg(pl.col("count").sum()).sort(LIST, "value")
    tally = totals.select("value", "count").to_struct(lists.name)
    return unflattened(totals[LIST].to_numpy(), tally, lists.len())
