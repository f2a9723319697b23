"""Aggregates that add: sum and mean, exact until a pane is built.

See docs/semantics.md, "Aggregates".

Parts, all additive: limbs; ``nulls``; for floats also ``plus_inf``, ``minus_inf``, ``nan``.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa

from tidemark.core.aggregates import exact_sum
from tidemark.core.aggregates.aggregate import Columns
from tidemark.core.aggregates.basic import ColumnFunction, null_counter, values_counted
from tidemark.core.aggregates.parts import (
    Mask,
    additive,
    counter_column,
    counter_of,
    limb_columns,
    limbs_of,
    running_additive,
)
from tidemark.core.aggregates.runs import Runs
from tidemark.core.columns import without_nulls

_PLUS_INF, _MINUS_INF, _NAN = "plus_inf", "minus_inf", "nan"
_DIGITS = 38


class AdditiveFunction(ColumnFunction):
    """Base of sum, mean and variance: functions whose parts add up."""

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return the limbs of each value; nulls, infinities and NaN are counted apart."""
        values = rows[self.column]
        nulls = null_counter(name, values)
        if values.dtype == pl.Boolean:
            values = values.cast(pl.Int64)
        values = without_nulls(values)
        if values.dtype.is_float():
            return nulls + _float_parts(name, values.to_numpy().astype(np.float64, copy=False))
        of = exact_sum.of_decimals if values.dtype.is_decimal() else exact_sum.of_integers
        return nulls + limb_columns(name, of(values))

    def merge(self, name: str, present: Sequence[str]) -> list[pl.Expr]:
        """Add up the parts."""
        return additive(name, present)

    def running(self, name: str, partials: pl.DataFrame, runs: Runs) -> list[pl.Series]:
        """Return running sums of the parts."""
        return running_additive(name, partials, runs)

    def total_type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the type of the total: Decimal of the column's scale, Float64 or Int64."""
        found = self.input_type(name, columns)
        if isinstance(found, pl.Decimal):
            return pl.Decimal(_DIGITS, found.scale)
        if found.is_float():
            return pl.Float64()
        if found == pl.Boolean or (found.is_integer() and found not in (pl.Int128, pl.UInt128)):
            return pl.Int64()
        raise self.unsuitable(name, columns, "numbers or Booleans")


class Sum(AdditiveFunction):
    """The exact sum; of Booleans, the number that are true."""

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return Int64 for integers and Booleans, Float64, or Decimal of the column's scale."""
        return self.total_type(name, columns)

    def value(self, name: str, partials: pl.DataFrame, columns: Columns) -> pl.Series:
        """Return the sums; sums of floats are rounded once."""
        limbs = limbs_of(name, partials)
        total_type = self.total_type(name, columns)
        if isinstance(total_type, pl.Float64):
            rounded = exact_sum.rounded(limbs, partials.height)
            totals = pl.Series(_with_infinities(rounded, name, partials))
        elif isinstance(total_type, pl.Decimal):
            totals = _decimal_totals(limbs, partials.height, total_type.scale)
        else:
            totals = _integer_totals(limbs, partials.height)
        return _null_if_none(totals, name, partials)


class Mean(AdditiveFunction):
    """The exact sum divided by the number of values.

    For floats, the sum is rounded before it is divided, as ``statistics.fmean`` does.
    """

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return Float64."""
        self.total_type(name, columns)
        return pl.Float64()

    def value(self, name: str, partials: pl.DataFrame, columns: Columns) -> pl.Series:
        """Return the means."""
        limbs = limbs_of(name, partials)
        number = np.maximum(values_counted(name, partials), 1)
        total_type = self.total_type(name, columns)
        if isinstance(total_type, pl.Float64):
            means = _float_means(limbs, number)
            means = _with_infinities(means, name, partials)
        else:
            unit = 10**total_type.scale if isinstance(total_type, pl.Decimal) else 1
            means = _quotients(limbs, number, unit)
        return _null_if_none(pl.Series(means), name, partials)


def _float_parts(name: str, values: exact_sum.Floats) -> list[pl.Series]:
    finite = np.isfinite(values)
    if finite.all():
        return limb_columns(name, exact_sum.of_floats(values))
    return [
        *counter_column(name, _PLUS_INF, values == np.inf),
        *counter_column(name, _MINUS_INF, values == -np.inf),
        *counter_column(name, _NAN, np.isnan(values)),
        *limb_columns(name, exact_sum.of_floats(finite_only(values))),
    ]


def finite_only(values: exact_sum.Floats) -> exact_sum.Floats:
    """Return values with zero in place of infinities and NaN."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, 0.0)


def infinities(name: str, partials: pl.DataFrame) -> Mask:
    """Return a mask of the partials that hold infinities or NaN."""
    apart = (_PLUS_INF, _MINUS_INF, _NAN)
    marks = [counter_of(name, part, partials) > 0 for part in apart]
    return marks[0] | marks[1] | marks[2]


def _with_infinities(
    finite: exact_sum.Floats, name: str, partials: pl.DataFrame
) -> exact_sum.Floats:
    """Return values with infinities and NaN; NaN, or infinities of both signs, give NaN."""
    plus, minus, nan = (
        counter_of(name, part, partials) > 0 for part in (_PLUS_INF, _MINUS_INF, _NAN)
    )
    finite[plus], finite[minus] = np.inf, -np.inf
    finite[nan | (plus & minus)] = np.nan
    return finite


def _integer_totals(limbs: exact_sum.Limbs, height: int) -> pl.Series:
    totals = exact_sum.int64_totals(limbs, height)
    if totals is None:
        return pl.Series(exact_sum.exact(limbs, height), dtype=pl.Int128)
    return pl.Series(totals)


def _decimal_totals(limbs: exact_sum.Limbs, height: int, scale: int) -> pl.Series:
    totals = exact_sum.decimal_totals(limbs, height)
    if totals is not None:
        buffers = [None, pa.py_buffer(totals)]
        array = pa.Array.from_buffers(pa.decimal128(_DIGITS, scale), height, buffers)
        return cast(pl.Series, pl.from_arrow(array))
    exact = exact_sum.exact(limbs, height)
    decimals = [Decimal((total < 0, tuple(map(int, str(abs(total)))), -scale)) for total in exact]
    if all(abs(total) < 10**_DIGITS for total in exact):
        return pl.Series(decimals, dtype=pl.Decimal(_DIGITS, scale))
    return pl.Series([f"{decimal:f}" for decimal in decimals])


def _float_means(limbs: exact_sum.Limbs, number: exact_sum.Integers) -> exact_sum.Floats:
    """Return means from rounded totals; from exact ones if a total exceeds all doubles."""
    totals = exact_sum.rounded(limbs, len(number))
    means = totals / number
    beyond = np.isinf(totals)
    if beyond.any():
        rest = {position: limb[beyond] for position, limb in limbs.items()}
        means[beyond] = _quotients(rest, number[beyond], 2**-exact_sum.FLOAT_UNIT)
    return means + 0.0  # a quotient that is rounded to -0.0 becomes 0.0


def _quotients(limbs: exact_sum.Limbs, number: exact_sum.Integers, unit: int) -> exact_sum.Floats:
    """Return totals divided by ``number * unit``, rounded once."""
    totals = exact_sum.int64_totals(limbs, len(number))
    if totals is not None and _are_doubles(totals) and number.max(initial=1) * unit <= 2**53:
        return totals / (number * unit)
    exact = exact_sum.exact(limbs, len(number))
    # Division of Python integers rounds correctly at any size.
    return np.array([total / (n * unit) for total, n in zip(exact, number.tolist(), strict=True)])


def _are_doubles(totals: exact_sum.Integers) -> bool:
    return not totals.size or (totals.min() >= -(2**53) and totals.max() <= 2**53)


def _null_if_none(totals: pl.Series, name: str, partials: pl.DataFrame) -> pl.Series:
    """Return totals, null for partials whose values are all null."""
    some = values_counted(name, partials) > 0
    if some.all():
        return totals
    return pl.select(pl.when(pl.Series(some)).then(totals)).to_series()
