"""Single columns in the form that NumPy needs, and columns that come and go without a query.

For whole frames polars runs a query in its thread pool.  For the few rows of a segment, the wait
for a thread takes longer than the work.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl


def without_nulls(numbers: pl.Series) -> pl.Series:
    """Return numbers with zero for null; without nulls ``fill_null``, which is slow, is skipped."""
    return numbers.fill_null(0) if numbers.null_count() else numbers


def without(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Return rows without some columns."""
    return rows[[name for name in rows.columns if name not in names]]


def with_column(rows: pl.DataFrame, column: pl.Series) -> pl.DataFrame:
    """Return rows with a column in place of that of the same name, or behind the others."""
    if column.name not in rows.columns:
        return rows.hstack([column])
    place = rows.columns.index(column.name)
    return rows.clone().replace_column(place, column)


def renamed(rows: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """Return rows with other names for some columns."""
    return pl.DataFrame([column.alias(names.get(column.name, column.name)) for column in rows])


def repeated_text(name: str, text: str, times: int) -> pl.Series:
    """Return a column that holds the same text in each row."""
    return pl.Series(name, [text], pl.String()).new_from_index(0, times)


def repeated_number(name: str, number: int, times: int) -> pl.Series:
    """Return a column of type Int64 that holds the same number in each row."""
    return pl.Series(name, np.full(times, number, np.int64))
