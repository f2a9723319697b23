"""Ages of open windows against a count of one window after the other."""

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.time.segment import FOREVER_MS, NEVER_MS
from tidemark.core.windows.open_bounds import OpenBounds, WindowAges, ages_of

WINDOWS = st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 50), st.integers(0, 3)))
BOUNDS = st.sets(st.integers(0, 60), min_size=1).map(sorted)


def bounds_of(windows, *, counted):
    """Return windows as columns; ``counted``: (begin, length, count), else each counts once."""
    begins, lengths, counts = np.array(windows, np.int64).reshape(-1, 3).T
    return OpenBounds(begins, lambda n: int(begins[n] + lengths[n]), counts if counted else None)


@given(WINDOWS, WINDOWS, st.integers(-60, 60), BOUNDS)
def test_every_window_counts_in_the_bucket_of_its_age(single, several, clock_ms, ages_ms):
    found = bounds_of(single, counted=False), bounds_of(several, counted=True)
    got = ages_of(found, clock_ms, ages_ms)

    counts = [0] * (len(ages_ms) + 1)
    for begin, _, count in [(b, n, 1) for b, n, _ in single] + several:
        counts[bisect_left(ages_ms, max(0, clock_ms - begin))] += count
    every = [(begin, begin + length) for begin, length, _ in single + several]
    if not every:
        assert got == WindowAges()
        return
    assert list(got.counts) == counts
    assert (got.oldest_begin_ms, got.oldest_end_ms) in every
    assert got.oldest_begin_ms == min(begin for begin, _ in every)


@pytest.mark.parametrize("clock_ms", [NEVER_MS, FOREVER_MS])
def test_without_a_time_of_the_clock_windows_have_no_age(clock_ms):
    found = ages_of([bounds_of([(3, 7, 1)], counted=False)], clock_ms, [5, 10])
    assert found == WindowAges(3, 10)
