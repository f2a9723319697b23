"""Expressions over a stream's columns: which names they use, and what columns they make.

A stream shows an expression its own value columns.  The metadata columns of the Kafka record are
shown only to an expression that names them, so ``pl.all()`` means the value columns.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from tidemark.errors import PipelineError

METADATA: dict[str, pl.DataType] = {
    "_key": pl.String(),
    "_timestamp": pl.Int64(),
    "_partition": pl.Int32(),
    "_offset": pl.Int64(),
    "_headers": pl.List(pl.Struct({"name": pl.String(), "value": pl.String()})),
    "_topic": pl.String(),
}
"""Columns of the Kafka record itself: ``_timestamp`` in ms, key and header values as UTF-8."""

# Types whose values mean nothing outside the frame or process that made them.
_UNSTABLE = (pl.Categorical, pl.Enum, pl.Object, pl.Null, pl.Unknown)

Columns = Mapping[str, pl.DataType]


def expression_text(expression: pl.Expr, limit: int = 100) -> str:
    """Return an expression as a short text for errors and plans."""
    text = " ".join(str(expression).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def metadata_used(expressions: Iterable[pl.Expr]) -> tuple[str, ...]:
    """Return the metadata columns that expressions name, in the order of METADATA."""
    names = {name for expression in expressions for name in expression.meta.root_names()}
    return tuple(name for name in METADATA if name in names)


def visible(expressions: Sequence[pl.Expr], columns: Columns) -> dict[str, pl.DataType]:
    """Return the columns that expressions may look at."""
    return {**columns, **{name: METADATA[name] for name in metadata_used(expressions)}}


def require_column(name: object, columns: Columns, what: str) -> None:
    """Raise PipelineError where a stream has no such column; ``what`` names the operator."""
    if not isinstance(name, str):
        raise PipelineError(f"{what}: {name!r} is not a column name")
    if name in columns:
        return
    close = difflib.get_close_matches(name, columns, n=2, cutoff=0.6)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise PipelineError(
        f"{what}: the stream has no column {name!r}{hint} (columns: {', '.join(columns)})"
    )


def require_expression(value: object, what: str) -> pl.Expr:
    """Return ``value`` as an expression; raise PipelineError where it is none."""
    if isinstance(value, pl.Expr):
        return value
    raise PipelineError(
        f"{what}: {value!r} is a {type(value).__name__}, not an expression such as col('a') > 1"
    )


def output_types(
    expressions: Sequence[pl.Expr], columns: Columns, what: str
) -> dict[str, pl.DataType]:
    """Return the columns that expressions make, from types alone: no value is looked at.

    Raises:
        PipelineError: an unknown column, or types that do not fit.
    """
    seen = visible(expressions, columns)
    for expression in expressions:
        for name in expression.meta.root_names():
            require_column(name, seen, what)
    try:
        schema = pl.LazyFrame(schema=seen).select(expressions).collect_schema()
    except pl.exceptions.PolarsError as error:
        raise PipelineError(f"{what}: {first_line(error)}") from error
    for name, dtype in schema.items():
        if isinstance(dtype, _UNSTABLE):
            raise PipelineError(
                f"{what}: column {name!r} would have type {dtype}; cast it to a plain type such as "
                "pl.String"
            )
    return dict(schema)


def evaluate(
    expressions: Sequence[pl.Expr], names: Sequence[str], rows: pl.DataFrame
) -> pl.DataFrame:
    """Return the columns ``names`` that expressions make, one row per row: literals are repeated.

    ``rows`` holds what is ``visible``.
    """
    return rows.with_columns(expressions).select(names)


def first_line(error: BaseException) -> str:
    """Return the part of an error's text that says what is wrong."""
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__
