"""Check that an expression is row-wise: each result depends on one row only.

See docs/semantics.md, "Stateless operators".

If an expression looks at other rows, its results depend on how ingest cuts the topic into batches.
Types do not show that.  polars' ``is_row_separable`` is trusted if it returns false, but it returns
true for ``a - a.mean()``.  So every expression is tried on a probe frame: whole, again, cut in two,
in small batches, and reversed.  All results must agree to the bit.  A row on which an expression
raises is left out: it may be a bad row, which becomes a dead letter at run time.

A probe takes 20 ms or more, and a pipeline often repeats an expression, such as one ``where`` for
all aggregates.  So a process tries an expression of polars alone once.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import polars as pl

from tidemark.core.rows.expression import (
    Columns,
    evaluate,
    expression_text,
    first_line,
    output_types,
    visible,
)
from tidemark.core.rows.schema import instance
from tidemark.errors import PipelineError

ROWS = 72
"""Rows of the probe frame."""

_STRIDES = (1, 5, 7, 11, 13, 17, 19, 23, 25, 29, 31, 35)  # coprime to ROWS: other pairs per column

_TEXTS = (
    "a", "b", "", "a", "Ab c", "12", "-7", "3.5", "1e3", "true", "ß ñ 日本", "🜁", " x ", "a,b;c",
    "a=b", "2024-02-29", "2024-02-29T12:30:45.678Z", "2024-02-29 12:30:45", "12:30", "[1,2]",
    '{"a":1}', "0", "z" * 40, "NULL", "user-1", "user-2", "b",
)  # fmt: skip
_INTEGERS = (
    0, 1, -1, 2, 3, 7, 7, 10, -10, 100, 127, 1000, -1000, 65_536, 86_400_000, 1_700_000_000_000,
    -1, 2**31, 2**53 + 1, -(2**53), 5, 5, 0,
)  # fmt: skip
_LARGEST, _LARGEST_INSTANT = 2**63, 2**41
"""Bounds of integers.  An expression that makes instants of integers gets only such that are years
below 72,000 in seconds and in ms: polars panics at later ones, and prints that before it raises.
"""

_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 2.5, -2.5, 1e-9, 1e16, -3.75, 7.25, 7.25, 100.0, 1 / 3, -1e3,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
_BOOLEANS = (True, False, False, True, True)
_LENGTHS = (2, 0, 1, 3, 2)

_BATCH_ROWS = (1, 2, 1, 3, 5, 8, 13)

FAILURES = (Exception, pl.exceptions.PanicException)
"""What an expression of a user may raise: anything, a panic of polars too."""


def require_row_wise(expression: pl.Expr, columns: Columns, what: str) -> None:
    """Check an expression on probe frames; ``what`` names the operator in the error.

    Raises:
        PipelineError: it looks at other rows, differs between two runs, or changes the number of
            rows.
    """
    separable = _is_row_separable(expression)
    if separable is False:
        raise _looks_at_other_rows(expression, what)
    names = tuple(output_types([expression], columns, what))
    seen = visible([expression], columns)
    if separable is None:
        _try(expression, seen, names, what)
    else:
        serialized = expression.meta.serialize()
        _try_once(_Trial(serialized, tuple(seen.items()), expression, names, what))


@dataclass(frozen=True)
class _Trial:
    """An expression without Python functions, on columns; equal to others with the same probe."""

    serialized: bytes
    columns: tuple[tuple[str, pl.DataType], ...]
    expression: pl.Expr = field(compare=False)
    names: tuple[str, ...] = field(compare=False)
    what: str = field(compare=False)


@lru_cache(maxsize=1_000)
def _try_once(trial: _Trial) -> None:
    """Try an expression unless an equal trial has passed; a failure is not kept."""
    _try(trial.expression, dict(trial.columns), trial.names, trial.what)


def _try(expression: pl.Expr, columns: Columns, names: Sequence[str], what: str) -> None:
    for rows in _frames(expression, columns):
        _try_on(rows, expression, names, what)


def require_no_failure(expression: pl.Expr, columns: Columns, what: str) -> None:
    """Check that an expression fails on no row of the probe frames; ``what`` begins the error.

    It is for expressions whose failure could not be put down to one record.

    Raises:
        PipelineError: it fails on a row.
    """
    for rows in _frames(expression, columns):
        try:
            rows.select(expression)
        except FAILURES as error:
            raise PipelineError(
                f"{what}: it fails on some values ({first_line(error)}); make it give null for "
                "them, such as with cast(..., strict=False)"
            ) from error


def _frames(expression: pl.Expr, columns: Columns) -> list[pl.DataFrame]:
    """Return the probe frames of an expression: with nulls, and without."""
    schema, words = visible([expression], columns), _words(expression)
    largest = _LARGEST_INSTANT if _makes_instants(expression) else _LARGEST
    return [probe_frame(schema, words, nulls=nulls, largest=largest) for nulls in (True, False)]


def probe_frame(
    columns: Columns, words: Sequence[str] = (), *, nulls: bool, largest: int = _LARGEST
) -> pl.DataFrame:
    """Return ROWS rows of varied values, always the same: repeated values, extremes, nulls.

    ``words``: further values, as texts, such as those that an expression compares with.
    ``largest``: the bound of integers.

    Raises:
        PipelineError: no values of the type of a column can be made.
    """
    series = []
    for index, (name, dtype) in enumerate(columns.items()):
        try:
            values = _values(dtype, words, largest, nulls=nulls)
            stride = _STRIDES[index % len(_STRIDES)]
            picked = [values[(row * stride % ROWS) % len(values)] for row in range(ROWS)]
            series.append(pl.Series(name, picked, dtype, strict=False))
        except FAILURES as error:  # a type of polars that no Python values make, such as Object
            raise PipelineError(
                f"column {name!r}: expressions take no columns of type {dtype}; drop it by select"
            ) from error
    return pl.DataFrame(series)


def _values(dtype: pl.DataType, words: Sequence[str], largest: int, *, nulls: bool) -> list[Any]:
    values = _plain_values(dtype, words, largest)
    return [*values[:3], None, *values[3:], None, None] if nulls else values


def _plain_values(dtype: pl.DataType, words: Sequence[str], largest: int) -> list[Any]:
    """Return values of a type, as polars gives them: it takes no int for a float inside a list."""
    if isinstance(dtype, pl.List | pl.Array):
        inner = _plain_values(instance(dtype.inner), words, largest)
        lengths = (dtype.size,) if isinstance(dtype, pl.Array) else _LENGTHS
        return [
            [inner[(row + item) % len(inner)] for item in range(lengths[row % len(lengths)])]
            for row in range(len(inner))
        ]
    if isinstance(dtype, pl.Struct):
        fields = {
            field.name: _plain_values(instance(field.dtype), words, largest)
            for field in dtype.fields
        }
        return [
            {name: values[(row * 3) % len(values)] for name, values in fields.items()}
            for row in range(len(_TEXTS))
        ]
    return _leaves(dtype, words, largest).cast(dtype, strict=False).drop_nulls().to_list() or [None]


def _leaves(dtype: pl.DataType, words: Sequence[str], largest: int) -> pl.Series:
    """Return values that become values of a type without parts, or null, by a cast."""
    if isinstance(dtype, pl.Enum):
        return dtype.categories
    if dtype == pl.Null:
        return pl.Series([None])
    if dtype.is_integer():
        integers = (*_whole(words), *_INTEGERS)
        return pl.Series([each for each in integers if abs(each) < largest], dtype=pl.Int64)
    if dtype.is_numeric():
        return pl.Series([*map(float, _whole(words)), *_FLOATS], dtype=pl.Float64)
    if dtype.is_temporal():
        return pl.Series(_INTEGERS[:13], dtype=pl.Int32 if dtype == pl.Date else pl.Int64)
    if dtype == pl.Boolean:
        return pl.Series(_BOOLEANS)
    return pl.Series([*words, *_TEXTS], dtype=pl.String)


def _whole(words: Sequence[str]) -> list[int]:
    """Return the words that are integers, and their neighbours, so comparisons go both ways."""
    numbers = [int(word) for word in words if re.fullmatch(r"-?[0-9]{1,15}", word)]
    return [near for number in numbers for near in (number, number + 1, number - 1)]


def _words(expression: pl.Expr) -> list[str]:
    """Return the texts and numbers in an expression, so that the probe frame contains them."""
    text = str(expression)
    texts = re.findall(r'"([^"\\]*)"', text)
    return list(dict.fromkeys(texts + re.findall(r"-?\b[0-9]+\b", text)))[:24]


def _makes_instants(expression: pl.Expr) -> bool:
    """Return whether an expression casts to dates, datetimes or durations."""
    return re.search(r"cast\((Date|Duration)", str(expression)) is not None


def _is_row_separable(expression: pl.Expr) -> bool | None:
    """Return what polars says; None where it needs types, as for Python functions and selectors."""
    try:
        return expression.meta.is_row_separable()
    except FAILURES:
        return None


def _try_on(rows: pl.DataFrame, expression: pl.Expr, names: Sequence[str], what: str) -> None:
    good = _without_bad_rows(rows, expression, what)
    if good.is_empty():
        _refuse_wrong_type(rows[:1], expression, what)
        return
    expected: list[str] = []
    for parts, reverse in _arrangements(good):
        try:
            lines = _bits(pl.concat(evaluate([expression], names, part) for part in parts))
        except FAILURES as error:  # although each row alone is good
            raise _looks_at_other_rows(expression, what) from error
        expected = expected or lines
        if (lines[::-1] if reverse else lines) != expected:
            raise _looks_at_other_rows(expression, what)


def _without_bad_rows(rows: pl.DataFrame, expression: pl.Expr, what: str) -> pl.DataFrame:
    """Return the rows without those on which an expression raises alone."""
    try:
        height = rows.select(expression).height
    except FAILURES:  # a bad row may raise anything, a polars panic too
        if rows.height <= 1:
            return rows.clear()
        half = rows.height // 2
        return pl.concat(
            [_without_bad_rows(part, expression, what) for part in (rows[:half], rows[half:])]
        )
    if height not in (rows.height, 1):
        text = expression_text(expression)
        raise PipelineError(
            f"{what}: {text} made {height} rows of {rows.height}; only flat_map and explode change "
            "the number of rows"
        )
    return rows


def _arrangements(rows: pl.DataFrame) -> Iterator[tuple[list[pl.DataFrame], bool]]:
    """Yield the probe frame whole, again, cut in two, in small batches, and reversed.

    The flag says whether the rows are reversed.
    """
    yield [rows], False
    yield [rows], False
    for cut in sorted({1, rows.height // 3, rows.height // 2, rows.height - 1} - {0, rows.height}):
        yield [rows[:cut], rows[cut:]], False
    yield _small_batches(rows), False
    yield [rows[list(range(rows.height))[::-1]]], True  # reverse() panics for Array of texts


def _small_batches(rows: pl.DataFrame) -> list[pl.DataFrame]:
    batches: list[pl.DataFrame] = []
    start = 0
    for length in itertools.cycle(_BATCH_ROWS):
        if start >= rows.height:
            return batches
        batches.append(rows[start : start + length])
        start += length
    return batches


def _bits(result: pl.DataFrame) -> list[str]:
    """Return each row as text, equal if the bits are equal: -0.0 is not 0.0, NaN is NaN."""
    return [repr(row) for row in result.select(pl.all().to_physical()).rows()]


def _refuse_wrong_type(row: pl.DataFrame, expression: pl.Expr, what: str) -> None:
    """Raise PipelineError if a Python function's ``return_dtype`` is wrong.

    Other errors mean that no probe row suits the function; they are ignored.
    """
    try:
        row.select(expression)
    except pl.exceptions.SchemaError as error:
        text = expression_text(expression)
        raise PipelineError(f"{what}: {text}: {first_line(error)}") from error
    except FAILURES:
        return


def _looks_at_other_rows(expression: pl.Expr, what: str) -> PipelineError:
    return PipelineError(
        f"{what}: {expression_text(expression)} looks at other rows, or differs between two runs; "
        "a stateless operator sees one row at a time, so use a window's aggregate instead"
    )
