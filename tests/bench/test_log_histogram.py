"""Quantiles from buckets, beside those of the values themselves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.latency.log_histogram import LogHistogram

SHARES = (0.001, 0.5, 0.9, 0.99, 0.999, 1.0)


@given(st.lists(st.integers(0, 2**52), min_size=1, max_size=200))
def test_a_quantile_is_within_a_thousandth_of_the_exact_one(values):
    histogram = LogHistogram()
    for part in (values[::2], values[1::2]):
        histogram.add(np.array(part, np.int64))

    for share in SHARES:
        exact = sorted(values)[max(1, int(np.ceil(share * len(values)))) - 1]
        assert exact <= histogram.quantile(share) <= exact * (1 + 2**-10)


def test_small_values_are_exact():
    histogram = LogHistogram()
    histogram.add(np.arange(2_048))
    assert [histogram.quantile((n + 1) / 2_048) for n in range(2_048)] == list(range(2_048))


def test_of_nothing_there_is_no_quantile():
    histogram = LogHistogram()
    histogram.add(np.empty(0, np.int64))
    assert (histogram.quantile(0.99), histogram.highest) == (0, 0)
