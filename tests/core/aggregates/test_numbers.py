"""Sums, means and extremes at the limits of their types."""

import math

import polars as pl
import pytest

from tests.support.aggregating import (
    BY,
    COLUMNS,
    bits,
    cents,
    frame,
    one,
)
from tidemark.core.aggregates import constructors as aggregates
from tidemark.core.aggregates.aggregate import Aggregation


@pytest.mark.parametrize(
    "values",
    [
        [2**63 - 1, 1],
        [-(2**63), -1],
        [2**63 - 1] * 7,
        [2**63 - 1, 1, -1],
        [-(2**63)] * 3 + [2**63 - 1] * 3,
    ],
)
def test_integer_sums_beyond_int64_are_exact(values):
    assert one(values, pl.Int64(), x=aggregates.sum("x")) == {"x": sum(values)}


def test_integer_sums_return_to_int64_when_they_fit_again():
    aggregation = Aggregation({"x": aggregates.sum("int")}, COLUMNS)
    most, least = {"int": 2**63 - 1}, {"int": -(2**63)}
    beyond = aggregation.partials(frame([most, most]), BY)

    back = aggregation.combine([beyond, aggregation.partials(frame([least]), BY)], BY)

    assert aggregation.values(beyond)["x"].dtype == pl.Int128
    assert aggregation.values(back)["x"].dtype == pl.Int64
    assert aggregation.values(back)["x"].to_list() == [2**63 - 2]


def test_decimal_sums_beyond_38_digits_are_exact_text():
    most = cents(10**38 - 1)

    assert one([most, most], pl.Decimal(38, 2), x=aggregates.sum("x")) == {
        "x": "1999999999999999999999999999999999999.98"
    }


@pytest.mark.parametrize(
    ("values", "total", "mean"),
    [
        ([1e308, 1e308], math.inf, 1e308),
        ([math.inf, 1.0], math.inf, math.inf),
        ([math.inf, -math.inf], math.nan, math.nan),
        ([math.nan, 1.0], math.nan, math.nan),
        ([-0.0], 0.0, 0.0),
        ([0.1] * 10, 1.0, 0.1),
        ([1e16, 1.0, -1e16], 1.0, 1 / 3),
        ([None, None], None, None),
    ],
)
def test_float_sums_and_means(values, total, mean):
    found = one(values, pl.Float64(), s=aggregates.sum("x"), m=aggregates.mean("x"))

    assert {k: bits(v) for k, v in found.items()} == {"s": bits(total), "m": bits(mean)}


@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        ([math.nan, 1.0, 2.0], 1.0, 2.0),
        ([math.nan, math.nan], math.nan, math.nan),
        ([-0.0, -0.0], 0.0, 0.0),
        ([math.inf, -math.inf], -math.inf, math.inf),
        ([None, -1.0], -1.0, -1.0),
    ],
)
def test_float_extremes(values, least, greatest):
    found = one(values, pl.Float64(), a=aggregates.min("x"), b=aggregates.max("x"))

    assert {k: bits(v) for k, v in found.items()} == {"a": bits(least), "b": bits(greatest)}


@pytest.mark.parametrize(
    ("column_type", "values"),
    [
        (pl.Int8(), [127, 127, -1]),
        (pl.UInt8(), [255, 255]),
        (pl.UInt32(), [2**32 - 1] * 3),
        (pl.UInt64(), [2**64 - 1, 2**63]),
        (pl.Float32(), [0.5, 0.25]),
    ],
)
def test_narrow_and_unsigned_numbers_are_summed_exactly(column_type, values):
    found = one(values, column_type, s=aggregates.sum("x"), m=aggregates.mean("x"))

    assert found == {"s": sum(values), "m": sum(values) / len(values)}


def test_the_mean_of_large_integers_is_rounded_once():
    values = [2**63 - 1, 2**63 - 1, 2**63 - 3]

    assert one(values, pl.Int64(), m=aggregates.mean("x")) == {"m": sum(values) / 3}


_TINY = 5e-324


@pytest.mark.parametrize(
    "values",
    [[-_TINY, 0.0], [-_TINY, -0.0], [-_TINY, _TINY], [-0.0], [-0.0, 0.0], [-_TINY, 0.0, 0.0, 0.0]],
)
def test_no_zero_that_is_computed_has_a_sign(values):  # D6
    computed = one(
        values,
        pl.Float64(),
        mean=aggregates.mean("x"),
        sum=aggregates.sum("x"),
        least=aggregates.min("x"),
        most=aggregates.max("x"),
        variance=aggregates.variance("x", sample=False),
        stddev=aggregates.stddev("x", sample=False),
        median=aggregates.median("x"),
        low=aggregates.quantile("x", 0.1),
        high=aggregates.quantile("x", 0.9),
        sketched=aggregates.quantile("x", 0.4, approximate=True),
    )
    assert [value for value in computed.values() if bits(value) == bits(-0.0)] == []
    assert bits(0.0) != bits(-0.0)
