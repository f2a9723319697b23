"""The values of one row-wise expression, and the rows on which it fails.

The expression is evaluated on all rows at once.  If that raises, the rows are split until the
failing rows are found.
"""

import polars as pl

from tidemark.core.rows.expression import evaluate, first_line
from tidemark.core.rows.probe import FAILURES

_VALUE = "@value"
_BATCHES = 8


def row_values(
    expression: pl.Expr, rows: pl.DataFrame, dtype: pl.DataType
) -> tuple[pl.Series, dict[int, str]]:
    """Return the value of each row, null where the expression fails, and the error text by row."""
    faults: dict[int, str] = {}
    parts = _values(expression.alias(_VALUE), rows, 0, faults)
    empty = pl.Series(_VALUE, [], dtype)
    return pl.concat([empty, *(part.cast(dtype) for part in parts)]), faults


def _values(
    expression: pl.Expr, rows: pl.DataFrame, first: int, faults: dict[int, str]
) -> list[pl.Series]:
    if rows.is_empty():
        return []
    try:
        return [evaluate([expression], [_VALUE], rows)[_VALUE]]
    except MemoryError:  # which says nothing about the rows
        raise
    except FAILURES as error:  # a user's expression may raise anything
        if rows.height == 1:
            faults[first] = first_line(error)
            return [pl.Series(_VALUE, [None])]
    size = -(-rows.height // _BATCHES)
    return [
        part
        for begin in range(0, rows.height, size)
        for part in _values(expression, rows[begin : begin + size], first + begin, faults)
    ]
