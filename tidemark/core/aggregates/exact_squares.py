"""Exact squares: numbers squared into integer limbs, for sums of squares without rounding.

Limbs are as in ``exact_sum``: limb k weighs 2**(32 k) units, and its absolute value is below 2**32
before sums.  The unit of a square is the square of the number's unit: 1 for integers, the square of
the last digit's unit for decimals, 2**-2148 for floats.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from tidemark.core.aggregates.exact_sum import (
    Floats,
    Integers,
    Limbs,
    Words,
    blockwise,
    decimal_halves,
)

FLOAT_SQUARE_UNIT = -2148
"""Binary exponent of the unit of squared floats."""

_BITS = np.uint64(32)
_MASK = np.uint64(2**32 - 1)


def of_integers(values: pl.Series) -> Limbs:
    """Return the squares of integers of at most 64 bits, without nulls."""
    if values.dtype == pl.UInt64:
        return _limbs(_square(_digits(values.to_numpy())))
    numbers = values.to_numpy().astype(np.int64, copy=False)
    # The absolute value of the least Int64 does not fit, but wraps to the right bits.
    return _limbs(_square(_digits(np.abs(numbers).view(np.uint64))))


def of_decimals(values: pl.Series) -> Limbs:
    """Return the squares of decimals, without nulls, in squared units of their last digit."""
    low, high = (np.ascontiguousarray(half).view(np.uint64) for half in decimal_halves(values))
    negative = high >> np.uint64(63) > 0
    flipped = np.where(negative, ~low + np.uint64(1), low)
    carry = (flipped == 0).astype(np.uint64)
    size = np.where(negative, ~high + carry, high)
    return _limbs(_square([*_digits(flipped), *_digits(size)]))


def of_floats(values: Floats) -> Limbs:
    """Return the squares of finite doubles: 106 bits each, in at most five limbs."""
    return blockwise(values, _of_block)


def _of_block(values: Floats) -> Limbs:
    bits: Words = values.view(np.uint64)
    exponent = bits >> 52 & 0x7FF
    mantissa = bits & (2**52 - 1) | (exponent > 0).astype(np.uint64) << 52
    position = 2 * (np.maximum(exponent, 1) - 1)
    lowest, shift = position >> 5, position & 31
    digits = _shifted(_square(_digits(mantissa.astype(np.uint64, copy=False))), shift)
    limbs: dict[int, Integers] = {}
    places = np.flatnonzero(np.bincount(lowest[mantissa > 0].astype(np.int64)))
    for place in places.tolist():
        here = np.uint64(1) if len(places) == 1 else (lowest == place).astype(np.uint64)
        for k, digit in enumerate(digits, place):
            cut = (digit * here).astype(np.int64)
            limbs[k] = limbs[k] + cut if k in limbs else cut
    return {k: limb for k, limb in limbs.items() if limb.any()}


def _digits(words: Words) -> list[Words]:
    return [words & _MASK, words >> _BITS]


def _square(digits: Sequence[Words]) -> list[Words]:
    """Return the squares of numbers, as digits of 32 bits, lowest digit first."""
    used = [k for k, digit in enumerate(digits) if digit.any()]
    columns = [np.zeros_like(digits[0]) for _ in range(2 * len(digits))]
    for i in used:
        for j in (j for j in used if j >= i):
            product = digits[i] * digits[j]
            times = np.uint64(1 if i == j else 2)
            columns[i + j] += (product & _MASK) * times
            columns[i + j + 1] += (product >> _BITS) * times
    return list(_carried(columns))


def _carried(columns: Iterable[Words]) -> Iterable[Words]:
    carry: Words | np.uint64 = np.uint64(0)
    for column in columns:
        total: Words = column + carry
        yield total & _MASK
        carry = total >> _BITS


def _shifted(digits: Sequence[Words], shift: Words) -> list[Words]:
    """Return the numbers times 2**shift, shift < 32, with one digit more."""
    zero = np.zeros_like(digits[0])
    pairs = zip([zero, *digits], [*digits, zero], strict=True)
    return [(high << shift) & _MASK | low >> (_BITS - shift) for low, high in pairs]


def _limbs(digits: Sequence[Words]) -> Limbs:
    return {k: digit.astype(np.int64) for k, digit in enumerate(digits) if digit.any()}
