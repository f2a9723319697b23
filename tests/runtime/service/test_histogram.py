"""Histograms: every value is in its bucket, and percentiles are within the right bucket."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.runtime.service.histogram import BOUNDS_MS, Histogram, percentile_ms

DURATIONS = st.lists(st.integers(-10, 2 * BOUNDS_MS[-1]), max_size=30)


def bucket_of(duration_ms: float) -> int:
    return next((n for n, bound in enumerate(BOUNDS_MS) if duration_ms <= bound), len(BOUNDS_MS))


@given(st.lists(DURATIONS, max_size=4))
def test_counts_are_those_of_single_values(batches):
    histogram, expected = Histogram(), [0] * (len(BOUNDS_MS) + 1)
    for batch in batches:
        histogram.add_all(np.array(batch, np.int64))
        for each in batch:
            expected[bucket_of(each)] += 1
    stats = histogram.stats(0)
    assert stats.counts == expected
    assert stats.count == sum(map(len, batches))
    assert stats.sum_ms == sum(max(0, each) for batch in batches for each in batch)


@given(st.lists(st.integers(0, 2 * BOUNDS_MS[-1]), min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_percentile_is_in_the_bucket_of_the_value(durations, share):
    counts = [0] * (len(BOUNDS_MS) + 1)
    for each in durations:
        counts[bucket_of(each)] += 1
    rank = share * len(durations)
    exact = next(d for n, d in enumerate(sorted(durations), 1) if n >= rank)
    found = percentile_ms(counts, share)
    assert found is not None
    assert bucket_of(found) == min(bucket_of(exact), len(BOUNDS_MS) - 1)


def test_a_percentile_is_interpolated_within_its_bucket():
    counts = [0] * (len(BOUNDS_MS) + 1)
    counts[bucket_of(150)] = 10  # from 100 to 200 ms
    assert percentile_ms(counts, 0.5) == 150
    assert percentile_ms([0] * len(counts), 0.5) is None


def test_percentiles_are_those_of_the_last_minute():
    histogram = Histogram()
    histogram.add(8)
    assert histogram.stats(0).p50_ms == pytest.approx(7.5)
    histogram.add_all(np.full(9, 4_000))
    assert histogram.stats(59_000).p50_ms == pytest.approx(2_000 + 3_000 * 4 / 9)
    assert histogram.stats(61_000).p50_ms == pytest.approx(2_000 + 3_000 * 4.5 / 9), "without 8 ms"
    stats = histogram.stats(130_000)
    assert (stats.count, stats.p50_ms) == (10, None)
