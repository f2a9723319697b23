"""Expressions over a stream's columns: the names they use, and the columns they make.

An expression sees the value columns of its stream.  It sees a metadata column of the Kafka record
only if it names that column, so ``pl.all()`` means the value columns.
"""

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from tidemark.core.rows.leaf_values import holds
from tidemark.errors import PipelineError

METADATA: dict[str, pl.DataType] = {
    "_key": pl.String(),
    "_timestamp": pl.Int64(),
    "_partition": pl.Int32(),
    "_offset": pl.Int64(),
    "_headers": pl.List(pl.Struct({"name": pl.String(), "value": pl.String()})),
    "_topic": pl.String(),
}
"""Metadata columns, from the Kafka record: ``_timestamp`` in ms, key and header values as UTF-8."""

# Types whose values have no meaning outside the frame or process that made them.
_UNSTABLE = (pl.Categorical, pl.Enum, pl.Object, pl.Null, pl.Unknown)

# Types that numpy and Arrow, which hold the state of some aggregates, do not have.
_WIDE = (pl.Int128, pl.UInt128)

Columns = Mapping[str, pl.DataType]


def expression_text(expression: pl.Expr, limit: int = 100) -> str:
    """Return an expression as text of at most ``limit`` characters, for errors and plans."""
    text = " ".join(str(expression).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def whole_text(expression: pl.Expr) -> str:
    """Return an expression as text; a digest completes a text that polars shortens."""
    text = " ".join(str(expression).split())
    if "…" not in text:
        return text
    return f"{text} #{digest([expression.meta.serialize().hex()])}"


def digest(texts: Sequence[str]) -> str:
    """Return eight hexadecimal digits that change with the texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def as_written(value: object, limit: int = 100) -> str:
    """Return a value of the language as a user writes it, for errors: ``tumbling("5m")``.

    A function is its name, an aggregate its call, any other value its ``written`` or its repr.
    (The repr of watermarks and times is part of fingerprints, so it stays as it is.)
    """
    if isinstance(value, pl.Expr):
        return expression_text(value, limit)
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    is_aggregate = callable(getattr(value, "parts", None))
    text = str(value) if is_aggregate else str(getattr(value, "written", repr(value)))
    return text if len(text) <= limit else text[: limit - 3] + "..."


def metadata_used(expressions: Iterable[pl.Expr]) -> tuple[str, ...]:
    """Return the metadata columns that expressions name, in the order of METADATA."""
    names = {name for expression in expressions for name in expression.meta.root_names()}
    return tuple(name for name in METADATA if name in names)


def visible(expressions: Sequence[pl.Expr], columns: Columns) -> dict[str, pl.DataType]:
    """Return the columns that expressions see: the value columns, and metadata that they name."""
    return {**columns, **{name: METADATA[name] for name in metadata_used(expressions)}}


def require_column(name: object, columns: Columns, what: str) -> None:
    """Check that a stream has the column ``name``; ``what`` names the operator in the error.

    Raises:
        PipelineError: ``name`` is not a string, or not a column of the stream.
    """
    if not isinstance(name, str):
        raise PipelineError(f"{what}: {name!r} is not a column name")
    if name in columns:
        return
    named = [each for each in columns if not each.startswith("@")]  # others are of operators
    close = difflib.get_close_matches(name, named, n=2, cutoff=0.6)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    if "." in name and isinstance(columns.get(name.partition(".")[0]), pl.Struct):
        member = name.rpartition(".")[2]
        hint = f"; with_columns({member}=field({name!r})) makes a column of a member"
    raise PipelineError(
        f"{what}: the stream has no column {name!r}{hint} (columns: {', '.join(named)})"
    )


def require_expression(value: object, what: str) -> pl.Expr:
    """Return ``value`` if it is an expression; ``what`` names the operator in the error.

    Raises:
        PipelineError: ``value`` is not an expression.
    """
    if isinstance(value, pl.Expr):
        return value
    hint = ""
    if isinstance(value, str):
        hint = f"; col({value!r}) is a column, lit({value!r}) a value"
    elif isinstance(value, bool | int | float):
        hint = f"; lit({value!r}) is a value"
    raise PipelineError(
        f"{what}: {as_written(value)} is a {type(value).__name__}, not an expression such as "
        f"col('a') > 1{hint}"
    )


def output_types(
    expressions: Sequence[pl.Expr], columns: Columns, what: str
) -> dict[str, pl.DataType]:
    """Return the columns that expressions make, with types; computed from types alone.

    Raises:
        PipelineError: a column is unknown, the types do not fit, or a result type is not stable
            across processes, such as Categorical, or has 128 bits.
    """
    seen = visible(expressions, columns)
    for expression in expressions:
        for name in expression.meta.root_names():
            if name:  # pl.element(), an item of a list, has no name
                require_column(name, seen, what)
    try:
        schema = pl.LazyFrame(schema=seen).select(expressions).collect_schema()
    except pl.exceptions.StructFieldNotFoundError as error:
        structs = {n: dtype for n, dtype in seen.items() if isinstance(dtype, pl.Struct)}
        raise PipelineError(
            f"{what}: no field {first_line(error)!r} in a struct column (struct columns: "
            f"{', '.join(f'{name}: {dtype}' for name, dtype in structs.items()) or 'none'})"
        ) from error
    except pl.exceptions.PolarsError as error:
        raise PipelineError(f"{what}: {first_line(error)}") from error
    for name, dtype in schema.items():
        if holds(dtype, _is_unfit):
            plain = "pl.Int64 or pl.Decimal(38, 0)" if holds(dtype, _is_wide) else "pl.String"
            raise PipelineError(
                f"{what}: column {name!r} would have type {dtype}; cast it to a plain type such as "
                f"{plain}"
            )
    return dict(schema)


def _is_unfit(dtype: pl.DataType) -> bool:
    return isinstance(dtype, _UNSTABLE) or _is_wide(dtype)


def _is_wide(dtype: pl.DataType) -> bool:
    return isinstance(dtype, _WIDE)


def evaluate(
    expressions: Sequence[pl.Expr], names: Sequence[str], rows: pl.DataFrame
) -> pl.DataFrame:
    """Return the columns ``names`` that expressions make, as many rows as ``rows`` has.

    Literals are repeated.  ``rows`` holds the ``visible`` columns.
    """
    return rows.with_columns(expressions).select(names)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, at most 300 characters; its class if empty."""
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__


def error_text(error: BaseException) -> str:
    """Return an error's type and the first line of its text, bounded as ``first_line`` is."""
    return f"{type(error).__name__}: {first_line(error)}"
