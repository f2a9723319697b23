"""Window specifications refuse what is no window, naming the value."""

import numpy as np
import pytest

from tidemark.core.windows.window import MOST_WINDOWS, Hopping, Session
from tidemark.errors import PipelineError


@pytest.mark.parametrize(
    ("size_ms", "slide_ms", "offset_ms", "named"),
    [
        (0, 1, 0, "got 0 ms"),
        (10, 0, 0, "got 0 ms"),
        (10, 20, 0, "got 20 ms"),
        (10, 5, 5, "got 5 ms"),
        (86_400_000, 10, 0, "a window of 1d every 10ms puts each row in 8640000 windows"),
    ],
)
def test_what_is_no_window_is_refused(size_ms, slide_ms, offset_ms, named):
    with pytest.raises(PipelineError, match=named):
        Hopping(size_ms, slide_ms, offset_ms)


def test_a_row_may_be_in_many_windows():
    ends_ms = Hopping(MOST_WINDOWS, 1).ends_of(np.zeros(1, np.int64))
    assert ends_ms.shape == (1, MOST_WINDOWS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hopping(0, 1), "size must be positive, got 0 ms"),
        (lambda: Hopping(-5, 1), "size must be positive, got -5 ms"),
        (lambda: Hopping(10, 0), "slide must be positive .* got 0 ms"),
        (lambda: Hopping(10, 11), "at most the size of 10 ms, got 11 ms"),
        (lambda: Hopping(10, 5, 5), "shorter than the slide of 5 ms, got 5 ms"),
        (lambda: Hopping(10, 5, -5), "shorter than the slide of 5 ms, got -5 ms"),
        (lambda: Session(0), "gap must be positive, got 0 ms"),
    ],
)
def test_what_is_no_window_is_refused_with_its_value(make, message):
    with pytest.raises(PipelineError, match=message):
        make()
