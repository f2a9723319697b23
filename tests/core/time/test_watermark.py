import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.time.watermark import (
    QuarantineInput,
    bounded,
    delay_ms,
    is_quarantined,
    largest_of,
    monotonic,
    watermark_of,
    watermarks_before,
)
from tidemark.errors import PipelineError


def test_watermark_is_the_largest_time_before_the_row_less_the_delay():
    #  time       10   30   20   40
    #  before      -    8   28   28
    before, largest = watermarks_before(
        np.array([10, 30, 20, 40]), np.array([True] * 4), NEVER_MS, delay_ms(bounded("2ms"))
    )

    assert before.tolist() == [NEVER_MS, 8, 28, 28]
    assert largest == 40


def test_records_that_do_not_count_move_no_time():
    before, largest = watermarks_before(
        np.array([10, 99, 20]), np.array([True, False, True]), NEVER_MS, delay_ms(monotonic())
    )

    assert before.tolist() == [NEVER_MS, 10, 10]
    assert largest == 20


@given(
    st.lists(st.tuples(st.integers(-100, 100), st.booleans()), max_size=20),
    st.integers(0, 20),
    st.integers(0, 10),
)
def test_watermarks_do_not_depend_on_cuts(records: list[tuple[int, bool]], cut: int, delay: int):
    times = np.array([time for time, _ in records], np.int64)
    counts = np.array([count for _, count in records], np.bool_)

    whole, end = watermarks_before(times, counts, NEVER_MS, delay)
    first, middle = watermarks_before(times[:cut], counts[:cut], NEVER_MS, delay)
    second, last = watermarks_before(times[cut:], counts[cut:], middle, delay)

    assert [*first, *second] == whole.tolist()
    assert last == end


def test_watermark_and_largest_time_are_inverse():
    assert largest_of(watermark_of(5, 2_000), 2_000) == 5
    assert watermark_of(NEVER_MS, 2_000) == NEVER_MS
    assert largest_of(NEVER_MS, 2_000) == NEVER_MS


def quarantined(
    times: list[int | None],
    timestamps: list[int],
    largest_ms: int = NEVER_MS,
    marked: list[bool] | None = None,
) -> list[bool]:
    known = np.array([time is not None for time in times], np.bool_)
    ms = np.array([time or 0 for time in times], np.int64)
    counts = known if marked is None else known & np.array(marked, np.bool_)
    dated = QuarantineInput(ms, known, ms, counts, np.array(timestamps, np.int64))
    made: list[bool] = is_quarantined(dated, largest_ms, 10).tolist()
    return made


def test_record_further_ahead_of_its_timestamp_than_allowed_is_quarantined():
    assert quarantined([110, 111, 5, None], [100, 100, 100, 100]) == [False, True, False, False]


def test_record_without_timestamp_is_compared_with_progress():
    #  time       50   61   60   71   70     no timestamps, 10 ms allowed
    #  progress    -   50   50   60   60
    assert quarantined([50, 61, 60, 71, 70], [-1] * 5) == [False, True, False, True, False]
    assert quarantined([50], [-1], largest_ms=39) == [True]
    assert quarantined([50], [-1], largest_ms=40) == [False]


@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 60), st.sampled_from([-1, 0, 20, 40]), st.booleans()),
        max_size=20,
    ),
    st.sampled_from([NEVER_MS, 0, 30]),
)
def test_quarantine_is_that_of_reading_record_by_record(
    records: list[tuple[int | None, int, bool]], largest_ms: int
):
    expected, progress = [], largest_ms
    for time, stamp, marked in records:
        limit = stamp if stamp >= 0 else progress
        ahead = time is not None and limit != NEVER_MS and time > limit + 10
        if time is not None and marked and not ahead:
            progress = max(progress, time)
        expected.append(ahead)

    columns = [list(column) for column in zip(*records, strict=True)] or [[], [], []]
    times, stamps, marks = columns
    assert quarantined(times, stamps, largest_ms, marks) == expected


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: bounded("soon"), "'soon'"),
        (lambda: bounded("-5ms"), "-5"),
        (lambda: ColumnTime("at", "weeks"), "'weeks'"),
        (lambda: ColumnTime("at", "ms", "Europe/Berlin"), "'Europe/Berlin'"),
        (lambda: ColumnTime("at", "iso8601", "Mars/Base"), "'Mars/Base'"),
    ],
)
def test_mistakes_name_the_value(build, named: str):
    with pytest.raises(PipelineError, match=named):
        build()
