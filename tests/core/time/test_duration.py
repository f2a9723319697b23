from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.time.duration import duration_ms, duration_text, span_text
from tidemark.errors import PipelineError


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("500ms", 500),
        ("2s", 2_000),
        (" 1m ", 60_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("-1h", -3_600_000),
        ("0s", 0),
        (0, 0),
        (timedelta(minutes=1, milliseconds=5), 60_005),
    ],
)
def test_a_duration_is_text_with_a_unit_a_timedelta_or_zero(value, ms):
    assert duration_ms(value, "gap") == ms


@pytest.mark.parametrize(
    "value",
    ["", "5", "1.5s", "2 weeks", "1M", "s", "1h30m", None, 1.5, True, timedelta(microseconds=1)],
)
def test_anything_else_is_refused_with_its_name_and_value(value):
    with pytest.raises(PipelineError, match="session gap") as caught:
        duration_ms(value, "session gap")
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("value", "shown"), [(300, "300"), (-5, "-5"), (2**60, str(2**60))])
def test_a_number_without_a_unit_is_refused(value, shown):  # D9
    remedy = f"size: {shown} has no unit; write '{shown}ms' for milliseconds or '{shown}s' for"
    with pytest.raises(PipelineError, match=remedy):
        duration_ms(value, "size")


@pytest.mark.parametrize("value", [f"{2**58}ms", "999999999999999d"])
def test_a_duration_too_long_for_event_times_is_refused(value):
    with pytest.raises(PipelineError, match=r"size: .* is longer than"):
        duration_ms(value, "size")


@given(st.integers(-(2**53), 2**53))
def test_duration_text_is_read_back_as_the_same_duration(ms):
    assert duration_ms(duration_text(ms), "x") == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (60_000, "1m"),
        (60_001, "1m 1ms"),
        (662_000, "11m 2s"),
        (90_061_000, "1d 1h 1m 1s"),
    ],
)
def test_a_computed_time_is_shown_in_all_its_units(ms, text):
    assert span_text(ms) == text
