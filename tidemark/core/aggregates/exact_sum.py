"""Exact sums: numbers split into integer limbs, which add in any order; totals are rounded once.

A number is a sum of signed integers ("limbs"): limb k weighs 2**(32 k) units.  The unit is 1 for
integers, the last digit for decimals, and 2**-1074 for floats: every finite double is a multiple of
it.  Integers add exactly in any order, so limbs are summed column by column, by any engine.

Bounds: the absolute value of a limb is below 2**32 when a number is split, and at most 2**31 after
``carried``.  A frame has at most MAX_ROWS = 2**30 rows, so a sum of limbs stays below 2**62 and
Int64 never overflows.  Carried limbs are balanced (-2**31 <= limb < 2**31), so a small negative
total stays in few limbs; unsigned limbs would spread it over all higher ones.

Limbs that are zero in every row are left out.  See docs/semantics.md, "Aggregates".
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Limbs = Mapping[int, Integers]
"""Limbs by position k, each a column; a missing position means zero."""

MAX_ROWS = 2**30

FLOAT_UNIT = -1074
"""Binary exponent of the unit of float limbs."""

_BITS = 32
_MASK = 2**_BITS - 1
_HALF = 2 ** (_BITS - 1)

_BLOCK_ROWS = 4096
"""Rows of a block of floats: its intermediate columns stay in the cache, which is twice as fast."""


def of_integers(values: pl.Series) -> Limbs:
    """Return the limbs of integers of at most 64 bits, without nulls."""
    if values.dtype == pl.UInt64:
        unsigned = values.to_numpy()
        return _present({k: _signed(unsigned >> (32 * k) & _MASK) for k in (0, 1)})
    return _of_int64(values.to_numpy().astype(np.int64, copy=False))


def _of_int64(numbers: Integers) -> Limbs:
    if not numbers.size or (numbers.min() > -(2**32) and numbers.max() < 2**32):
        return _present({0: numbers})
    return _present({0: numbers & _MASK, 1: numbers >> _BITS})


def of_decimals(values: pl.Series) -> Limbs:
    """Return the limbs of decimals, without nulls, in units of their last digit."""
    low, high = decimal_halves(values)
    if (high == low >> 63).all():
        return _of_int64(low)
    low_limbs = {0: low & _MASK, 1: low >> _BITS & _MASK}
    return _present({**low_limbs, 2: high & _MASK, 3: high >> _BITS})


def decimal_halves(values: pl.Series) -> tuple[Integers, Integers]:
    """Return the low and the high 64 bits of decimals, without nulls."""
    array = values.to_arrow()
    halves = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    low, high = halves[array.offset : array.offset + len(array)].T
    return low, high


def of_floats(values: Floats) -> Limbs:
    """Return the limbs of finite doubles; the 53 bits of each touch at most three limbs."""
    return blockwise(values, _of_block)


def blockwise(values: Floats, cut: Callable[[Floats], Limbs]) -> Limbs:
    """Return the limbs of doubles, split by ``cut`` in blocks that stay in the cache."""
    starts = range(0, len(values), _BLOCK_ROWS)
    blocks = [cut(values[start : start + _BLOCK_ROWS]) for start in starts]
    limbs: dict[int, Integers] = {}
    for start, block in zip(starts, blocks, strict=True):
        for position, limb in block.items():
            if position not in limbs:
                limbs[position] = np.zeros(len(values), np.int64)
            limbs[position][start : start + _BLOCK_ROWS] = limb
    return limbs


def _of_block(values: Floats) -> Limbs:
    bits: Words = values.view(np.uint64)
    exponent = bits >> 52 & 0x7FF
    mantissa = bits & (2**52 - 1) | (exponent > 0).astype(np.uint64) << 52
    position = np.maximum(exponent, 1) - 1
    lowest, shift = position >> 5, position & 31
    shifted = mantissa << shift
    sign = 1 - 2 * _signed(bits >> 63)
    cuts = [
        _signed(cut) * sign
        for cut in (shifted & _MASK, shifted >> _BITS, (mantissa >> _BITS) >> (_BITS - shift))
    ]
    limbs: dict[int, Integers] = {}
    places = np.flatnonzero(np.bincount(_signed(lowest[mantissa > 0])))
    for place in places.tolist():
        here = 1 if len(places) == 1 else lowest == place
        for k, cut in enumerate(cuts, place):
            limbs[k] = limbs[k] + cut * here if k in limbs else cut * here
    return _present(limbs)


def carried(limbs: Limbs) -> Limbs:
    """Return balanced limbs: what exceeds a limb is carried into the next one."""
    if all(_is_balanced(limb) for limb in limbs.values()):
        return limbs
    balanced: dict[int, Integers] = {}
    position, last = min(limbs), max(limbs)
    carry: Integers | None = None
    while position <= last or carry is not None:
        limb = limbs.get(position)
        limb = carry if limb is None else limb if carry is None else limb + carry
        carry = None
        if limb is not None and not _is_balanced(limb):
            carry = limb + _HALF >> _BITS
            limb = limb - (carry << _BITS)
        if limb is not None:
            balanced[position] = limb
        position += 1
    return _present(balanced)


def exact(limbs: Limbs, height: int) -> list[int]:
    """Return each total as a Python integer: slow, for the few totals that fit no column type."""
    totals = [0] * height
    for position, limb in limbs.items():
        totals = [
            total + (digit << _BITS * position)
            for total, digit in zip(totals, limb.tolist(), strict=True)
        ]
    return totals


def int64_totals(limbs: Limbs, height: int) -> Integers | None:
    """Return totals as Int64, or None if one of them does not fit."""
    if limbs.keys() <= {0}:
        return limbs.get(0, np.zeros(height, np.int64))
    digits, carry = _floor_carried(_matrix(limbs, height, 0, max(1, *limbs)))
    negative = digits[1] >> 31
    if (carry != -negative).any() or (digits[2:] != _MASK * negative).any():
        return None
    totals: Integers = digits[1] << _BITS | digits[0]
    return totals


def decimal_totals(limbs: Limbs, height: int) -> Integers | None:
    """Return totals as rows of two Int64, low half first; None if one may exceed 2**97."""
    if any(position > 2 for position in limbs):
        return None
    digits, _ = _floor_carried(_matrix(limbs, height, 0, 3))
    return np.stack([digits[1] << _BITS | digits[0], digits[3] << _BITS | digits[2]], axis=1)


def rounded(limbs: Limbs, height: int) -> Floats:
    """Return float totals rounded to the nearest double, half to even, as ``math.fsum`` does."""
    if not limbs:
        return np.zeros(height)
    lowest = min(limbs) - 3  # three zero limbs below, so that a leading limb always has successors
    signed = _matrix(limbs, height, lowest, max(limbs) + 2)
    digits, carry = _floor_carried(signed)
    if carry.any():
        digits, _ = _floor_carried(np.where(carry < 0, -signed, signed))
    nonzero = digits != 0
    top = len(digits) - 1 - np.argmax(nonzero[::-1], axis=0)
    rows = np.arange(height)
    first, second, third = (digits[top - i, rows].astype(np.uint64) for i in range(3))
    length = np.frexp(first.astype(np.float64))[1].astype(np.uint64)
    leading = (first << _BITS | second) << (_BITS - length) | third >> length
    below = np.logical_or.accumulate(nonzero)[top - 3, rows]
    rest = below | (third & ((np.uint64(1) << length) - 1) > 0)
    exponent = _BITS * (lowest + top) + _signed(length) - 53 + FLOAT_UNIT
    with np.errstate(over="ignore"):
        size: Floats = np.ldexp(_nearest(leading, rest), exponent)
    return np.where(carry < 0, -size, size)


def _nearest(leading: Words, rest: npt.NDArray[np.bool_]) -> Floats:
    """Return 64 leading bits, the first set, rounded to 53; ``rest``: a nonzero bit follows."""
    kept, dropped = leading >> 11, leading & 0x7FF
    up = (dropped > 0x400) | ((dropped == 0x400) & (rest | (kept & 1 > 0)))
    nearest: Words = kept + up
    return nearest.astype(np.float64)


def _floor_carried(matrix: Integers) -> tuple[Integers, Integers]:
    """Return limbs in [0, 2**32), and the carry out of the top limb: -1 for negative totals."""
    digits = np.empty_like(matrix)
    carry = np.zeros(matrix.shape[1], np.int64)
    for position, limb in enumerate(matrix):
        total = limb + carry
        digits[position] = total & _MASK
        carry = total >> _BITS
    return digits, carry


def _matrix(limbs: Limbs, height: int, lowest: int, highest: int) -> Integers:
    matrix = np.zeros((highest - lowest + 1, height), np.int64)
    for position, limb in limbs.items():
        matrix[position - lowest] = limb
    return matrix


def _present(limbs: Limbs) -> Limbs:
    return {position: limb for position, limb in limbs.items() if limb.any()}


def _is_balanced(limb: Integers) -> bool:
    return not limb.size or bool(limb.min() >= -_HALF and limb.max() < _HALF)


def _signed(words: npt.NDArray[np.integer[Any]]) -> Integers:
    return words.astype(np.int64)
