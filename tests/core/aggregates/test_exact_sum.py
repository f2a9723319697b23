"""Limbs against Python's exact arithmetic: every total, to the last bit."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.core.aggregates import exact_sum
from tidemark.core.aggregates.exact_sum import FLOAT_UNIT, Limbs

TINY, HUGE = 5e-324, 1.7976931348623157e308
UNIT = Fraction(2) ** FLOAT_UNIT

doubles = st.floats(allow_nan=False, allow_infinity=False)
scales = st.builds(math.ldexp, st.floats(-2, 2), st.integers(-1080, 1022))
prices = st.integers(-(10**6), 10**6).map(lambda cents: cents / 100)
addends = st.lists(doubles | scales | prices | st.sampled_from([0.0, -0.0, TINY, HUGE, -HUGE]))


def summed(limbs: Limbs) -> Limbs:
    return {position: limb.sum(keepdims=True) for position, limb in limbs.items()}


def rounded_sum(values: Sequence[float], carry: bool) -> float:
    limbs = summed(exact_sum.of_floats(np.array(values, np.float64)))
    return float(exact_sum.rounded(exact_sum.carried(limbs) if carry else limbs, 1)[0])


def nearest(total: Fraction) -> float:
    """Round as Python does when it divides integers."""
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def bits(value: float) -> str:
    return value.hex()


@given(addends, st.booleans())
@example([1.0, 2.0**-53], True)  # a tie, to even
@example([1.0, 2.0**-53, TINY], True)  # just above the tie
@example([-1.0, -(2.0**-53), -TINY], False)
@example([1.0 + 2.0**-52, 2.0**-53], True)  # a tie, to even, upward
@example([HUGE, math.ldexp(1.0, 970)], True)  # rounds to infinity
@example([HUGE, HUGE, -HUGE], False)  # an overflow only on the way
@example([2.0**52, 0.5, -TINY], True)
@example([2.0**-1022, -TINY], True)  # the largest subnormal
def test_float_totals_are_the_exact_sum_rounded_once(values, carry):
    exact = nearest(sum(map(Fraction, values), Fraction(0)))

    assert bits(rounded_sum(values, carry)) == bits(exact + 0.0)


@given(addends)
def test_float_totals_equal_fsum(values):
    try:
        expected = math.fsum(values)
    except OverflowError:
        return  # fsum also gives up on overflows that cancel

    assert bits(rounded_sum(values, carry=True)) == bits(expected + 0.0)


@given(addends.filter(bool), st.randoms(use_true_random=False))
def test_cancelled_sums_are_a_positive_zero(values, random):
    both = [*values, *(-value for value in values)]
    random.shuffle(both)

    assert bits(rounded_sum(both, carry=True)) == bits(0.0)


@given(addends)
def test_limbs_of_a_float_are_that_float(values):
    limbs = exact_sum.of_floats(np.array(values, np.float64))

    exact = exact_sum.exact(limbs, len(values))
    assert [total * UNIT for total in exact] == [Fraction(value) for value in values]
    assert all(abs(limb).max() < 2**32 for limb in limbs.values())


@given(st.lists(st.tuples(addends, doubles), min_size=1, max_size=5))
def test_rows_are_rounded_independently(rows):
    columns = [exact_sum.carried(summed(exact_sum.of_floats(np.array([*v, w])))) for v, w in rows]
    positions = sorted({position for limbs in columns for position in limbs})
    zero = np.zeros(1, np.int64)
    limbs = {k: np.concatenate([c.get(k, zero) for c in columns]) for k in positions}

    together = exact_sum.rounded(limbs, len(rows)).tolist()
    assert list(map(bits, together)) == [bits(rounded_sum([*v, w], carry=True)) for v, w in rows]


limb_values = st.integers(-(2**62), 2**62)


@given(st.dictionaries(st.integers(0, 6), limb_values, min_size=1))
def test_carrying_keeps_the_total_and_makes_limbs_small(digits):
    limbs = {position: np.array([digit]) for position, digit in digits.items()}

    carried = exact_sum.carried(limbs)

    assert exact_sum.exact(carried, 1) == exact_sum.exact(limbs, 1)
    assert all(-(2**31) <= limb[0] < 2**31 for limb in carried.values())


def test_a_small_negative_total_stays_in_its_limb():
    limbs = {0: np.array([-1, 2**40]), 5: np.array([0, 1])}

    assert sorted(exact_sum.carried(limbs)) == [0, 1, 5]


@pytest.mark.parametrize("rows", [1, exact_sum.MAX_ROWS])
def test_the_greatest_limbs_of_the_most_rows_fit_into_int64(rows):
    worst = rows * (2**32 - 1)

    assert worst < 2**62
    carried = exact_sum.carried({0: np.array([worst, -worst])})
    assert exact_sum.exact(carried, 2) == [worst, -worst]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
@example([2**63 - 1, 1])
@example([-(2**63), -1])
@example([-(2**63)])
def test_integer_totals_are_exact_and_say_when_they_do_not_fit(values):
    limbs = exact_sum.carried(summed(exact_sum.of_integers(pl.Series(values, dtype=pl.Int64))))

    assert exact_sum.exact(limbs, 1) == [sum(values)]
    totals = exact_sum.int64_totals(limbs, 1)
    assert (totals is not None) == (-(2**63) <= sum(values) < 2**63)
    assert totals is None or totals.tolist() == [sum(values)]


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_unsigned_totals_are_exact(values):
    limbs = summed(exact_sum.of_integers(pl.Series(values, dtype=pl.UInt64)))

    assert exact_sum.exact(limbs, 1) == [sum(values)]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(2**70), 2**70)))
def test_decimal_limbs_are_exact(units):
    values = pl.Series(units, dtype=pl.Int128).cast(pl.Decimal(38, 0))
    limbs = exact_sum.of_decimals(values)

    assert exact_sum.exact(limbs, len(units)) == units
    pairs = exact_sum.decimal_totals(limbs, len(units))
    if pairs is not None:
        assert [low % 2**64 + (high << 64) for low, high in pairs.tolist()] == units


def test_typical_numbers_need_few_limbs():
    cents = np.arange(1, 5_000) / 100
    whole = np.arange(1, 5_000).astype(np.float64)

    assert len(exact_sum.of_floats(whole)) == 1
    assert len(exact_sum.of_floats(cents)) <= 4
    assert len(exact_sum.of_integers(pl.Series([1, 2**31, -5]))) == 1
