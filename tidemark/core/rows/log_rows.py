"""Expressions over the rows of a log, as operators with state take them: joins and patterns."""

import polars as pl

from tidemark.core.rows.expression import Columns, metadata_used, output_types
from tidemark.core.rows.probe import require_row_wise
from tidemark.errors import PipelineError


def types_on_log(expression: pl.Expr, columns: Columns, what: str, of: str) -> list[pl.DataType]:
    """Return the types of an expression over rows of a log; ``of``: a join or a pattern.

    ``what``: begins errors.

    Raises:
        PipelineError: it names a column of a Kafka record, does not name its columns, looks at
            other rows, or its types do not fit.
    """
    for name in metadata_used([expression]):
        raise PipelineError(
            f"{what}: column {name!r} is of a Kafka record, and rows of {of} do not have it; add "
            "it with with_columns() before key_by()"
        )
    types = output_types([expression], columns, what)
    if expression.meta.has_multiple_outputs():  # state holds only columns that are named
        raise PipelineError(f"{what}: it does not name its columns; name each of them")
    require_row_wise(expression, columns, what)
    return list(types.values())
