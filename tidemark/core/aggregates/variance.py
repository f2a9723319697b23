"""Variance and standard deviation, exact until they are rounded once.

Parts, all additive: those of a sum (``sums``), and the limbs of the sum of squares.  For n values
with sum s and sum of squares q, the variance is (n q - s s) / (n d).  The divisor d is n - 1 for a
sample and n for a population.  See docs/semantics.md, "Aggregates".
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.aggregates import exact_squares, exact_sum
from tidemark.core.aggregates.aggregate import Columns
from tidemark.core.aggregates.basic import values_counted
from tidemark.core.aggregates.exact_sum import Floats, Integers, Limbs
from tidemark.core.aggregates.parts import (
    SQUARE,
    limb_columns,
    limbs_of,
)
from tidemark.core.aggregates.sums import AdditiveFunction, finite_only, infinities
from tidemark.core.columns import without_nulls

_SAFE = 2**53
"""Integers up to this size are exact as doubles, so their quotient is rounded once."""


@dataclass(frozen=True)
class Variance(AdditiveFunction):
    """The mean squared distance from the mean; null for a sample of one value.

    ``correction`` is subtracted from the number of values: 1 for a sample, 0 for a population.
    """

    correction: int = 1

    def __str__(self) -> str:
        return f'{self.function_name}("{self.column}"{"" if self.correction else ", sample=False"})'

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return Float64."""
        self.total_type(name, columns)
        return pl.Float64()

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return the limbs of each value and of its square."""
        return [
            *super().parts(name, rows),
            *limb_columns(name, _squares(rows[self.column]), SQUARE),
        ]

    def value(self, name: str, partials: pl.DataFrame, columns: Columns) -> pl.Series:
        """Return the variances, divided and rounded once; NaN where a value is not finite."""
        n = values_counted(name, partials)
        divisor = n - self.correction
        found = np.full(n.size, np.nan)
        some = divisor > 0
        moments = _Moments(
            _where(limbs_of(name, partials), some),
            _where(limbs_of(name, partials, SQUARE), some),
            n[some],
            divisor[some],
            self._units(name, columns),
        )
        found[some] = self._rounded(moments)
        found[infinities(name, partials)] = np.nan
        values = pl.Series(found)
        if some.all():
            return values
        return pl.select(pl.when(pl.Series(some)).then(values)).to_series()

    def _units(self, name: str, columns: Columns) -> tuple[int, int]:
        """Return the unit of the squares as a fraction: numerator and denominator."""
        total_type = self.total_type(name, columns)
        if isinstance(total_type, pl.Decimal):
            return 1, int(10 ** (2 * total_type.scale))
        return 1, 2**-exact_squares.FLOAT_SQUARE_UNIT if total_type.is_float() else 1

    def _rounded(self, moments: "_Moments") -> Floats:
        small = moments.small()
        if small is not None:
            return small
        return np.array([_quotient(over, under) for over, under in moments.exact()], np.float64)


class StdDev(Variance):
    """The square root of the variance, rounded once."""

    def _rounded(self, moments: "_Moments") -> Floats:
        return np.array([_square_root(over, under) for over, under in moments.exact()], np.float64)


@dataclass(frozen=True)
class _Moments:
    """Sums and sums of squares of partials, with the numbers that the variance divides by."""

    sums: Limbs
    squares: Limbs
    n: Integers
    divisor: Integers
    units: tuple[int, int]

    def small(self) -> Floats | None:
        """Return variances computed in columns, or None if a number is too large for that."""
        sums = exact_sum.int64_totals(self.sums, self.n.size)
        squares = exact_sum.int64_totals(self.squares, self.n.size)
        if self.units != (1, 1) or sums is None or squares is None or not self.n.size:
            return None
        n = int(self.n.max())
        if max(n * n, n * int(squares.max()), int(np.abs(sums).max()) ** 2) > _SAFE:
            return None
        small: Floats = (self.n * squares - sums * sums) / (self.n * self.divisor)
        return small

    def exact(self) -> Iterator[tuple[int, int]]:
        """Yield each variance as a fraction of Python integers."""
        height = self.n.size
        sums, squares = exact_sum.exact(self.sums, height), exact_sum.exact(self.squares, height)
        numbers = zip(sums, squares, self.n.tolist(), self.divisor.tolist(), strict=True)
        over, under = self.units
        for total, square, n, divisor in numbers:
            yield (n * square - total * total) * over, n * divisor * under


def _squares(values: pl.Series) -> Limbs:
    if values.dtype == pl.Boolean:
        values = values.cast(pl.Int64)
    values = without_nulls(values)
    if values.dtype.is_float():
        return exact_squares.of_floats(finite_only(values.to_numpy().astype(np.float64)))
    if values.dtype.is_decimal():
        return exact_squares.of_decimals(values)
    return exact_squares.of_integers(values)


def _where(limbs: Limbs, some: np.ndarray) -> Limbs:
    return limbs if some.all() else {position: limb[some] for position, limb in limbs.items()}


def _quotient(over: int, under: int) -> float:
    """Return the quotient, rounded once; infinity if it exceeds all doubles."""
    try:
        return over / under
    except OverflowError:
        return math.inf


def _square_root(over: int, under: int) -> float:
    """Return the square root of a fraction, rounded once.

    The root of over * 4**k / under is truncated to an integer of at least 64 bits, and made odd if
    it is not exact.  Then the one division by 2**k rounds as the exact root would.
    """
    if not over:
        return 0.0
    k = max(0, (128 - over.bit_length() + under.bit_length()) // 2 + 1)
    scaled = over << 2 * k
    root = math.isqrt(scaled // under)
    if root * root * under != scaled:
        root |= 1
    return _quotient(root, 1 << k)
