import time
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.column_times import column_times, value_times
from tidemark.core.time.event_time import (
    EARLIEST_MS,
    LATEST_MS,
    MISSING,
    NO_INSTANT,
    NO_TEXT,
    NO_ZONE,
    OUT_OF_RANGE,
    REASONS,
    TOO_EARLY,
    EventTimes,
    record_times,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shown(times: EventTimes) -> list[int | str]:
    return [REASONS[reason] or int(ms) for ms, reason in zip(times.ms, times.reason, strict=True)]


def numbers(unit: str, *values: int | None) -> list[int | str]:
    return shown(column_times(ColumnTime("at", unit), pl.Series(values, dtype=pl.Int64)))


def texts(*values: str | None, zone: str | None = None) -> list[int | str]:
    column = pl.Series(values, dtype=pl.String)
    return shown(column_times(ColumnTime("at", "iso8601", zone), column))


def test_numbers_are_floored_to_milliseconds_also_before_1970():
    assert numbers("s", -1, 0, 2, None) == [-1000, 0, 2000, MISSING]
    assert numbers("us", -1, -1000, 1999) == [-1, -1, 1]
    assert numbers("ns", -1, 1_999_999) == [-1, 1]


@pytest.mark.parametrize(("unit", "per_s"), [("s", 1), ("ms", 10**3), ("us", 10**6)])
def test_numbers_outside_the_years_1_to_9999_are_no_time(unit: str, per_s: int):
    first, end = EARLIEST_MS // 1000 * per_s, (LATEST_MS + 1) // 1000 * per_s

    assert numbers(unit, first, end - 1) == [EARLIEST_MS, (end - 1) * 1000 // per_s]
    assert numbers(unit, first - 1, end, 2**63 - 1, -(2**63)) == [OUT_OF_RANGE] * 4


def test_every_nanosecond_of_64_bits_is_a_time():
    assert numbers("ns", 2**63 - 1, -(2**63)) == [9223372036854, -9223372036855]


NOON = 1_709_208_000_000  # 2024-02-29T12:00:00Z


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2024-02-29T12:00:00Z", NOON),
        ("2024-02-29 12:00:00Z", NOON),
        ("2024-02-29t12:00:00z", NOON),
        ("2024-02-29T12:00Z", NOON),
        ("2024-02-29T14:00:00+02:00", NOON),
        ("2024-02-29T05:00:00-0700", NOON),
        ("2024-02-29T12:00:00+00", NOON),
        ("2024-02-29T12:00:00-00:00", NOON),
        ("2024-02-29T12:00:00.1Z", NOON + 100),
        ("2024-02-29T12:00:00,123456789Z", NOON + 123),
        ("2024-02-29T12:00:00.123456789123Z", NOON + 123),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("0001-01-01T00:00:00Z", EARLIEST_MS),
        ("9999-12-31T23:59:59.999999999Z", LATEST_MS),
    ],
)
def test_iso_8601_text_is_a_time(text: str, ms: int):
    assert texts(text) == [ms]


@pytest.mark.parametrize(
    "text",
    [
        "", "hello", "2024-02-29", "12:00:00Z", "2024-02-30T12:00:00Z", "2023-02-29T12:00:00Z",
        "2024-13-01T12:00:00Z", "2024-00-01T12:00:00Z", "2024-01-00T12:00:00Z",
        "2024-02-29T24:00:00Z", "2024-02-29T12:60:00Z", "2024-02-29T12:00:60Z",
        "2024-02-29T12:00:00+24:00", "2024-02-29T12:00:00+02:60", "2024-02-29T12:00:00+2",
        "2024-02-29T12:00:00.Z", "2024-02-29T12:00:00.1234567891234Z", " 2024-02-29T12:00:00Z",
        "2024-02-29T12:00:00Z\n", "\uff12024-02-29T12:00:00Z", "0000-01-01T00:00:00Z",
        "24-02-29T12:00:00Z", "+2024-02-29T12:00:00Z", "1709208000000",
    ],
)  # fmt: skip
def test_other_text_is_no_time(text: str):
    assert texts(text) == [NO_TEXT]
    assert texts(text, zone="Europe/Berlin") == [NO_TEXT]


def test_offsets_may_lead_out_of_the_years():
    outside = ["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"]

    assert texts(*outside) == [OUT_OF_RANGE] * 2


def test_text_without_offset_needs_a_zone():
    assert texts("2024-02-29T13:00:00", None) == [NO_ZONE, MISSING]
    assert texts("2024-02-29T13:00:00", None, zone="Europe/Berlin") == [NOON, MISSING]


def test_offset_counts_more_than_the_zone():
    assert texts("2024-02-29T12:00:00Z", zone="Europe/Berlin") == [NOON]


def test_local_time_that_the_clocks_skipped_or_repeated_is_no_time():
    skipped, repeated = "2026-03-29T02:30:00", "2026-10-25T02:30:00"

    assert texts(skipped, repeated, zone="Europe/Berlin") == [NO_INSTANT] * 2


@given(
    st.integers(EARLIEST_MS * 1000, LATEST_MS * 1000).map(lambda us: timedelta(microseconds=us)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m))),
)
def test_texts_are_read_as_the_standard_library_reads_them(since: timedelta, zone: timezone):
    try:
        time = (EPOCH + since).astimezone(zone)
    except OverflowError:  # the zone's year is 0 or 10000
        return

    assert texts(time.isoformat()) == [(time - EPOCH) // timedelta(milliseconds=1)]


def test_record_timestamps_are_times_where_there_are_any():
    times = record_times(np.array([0, 5, -1, 2**62]))

    assert shown(times) == [0, 5, MISSING, OUT_OF_RANGE]


def why(times: EventTimes, min_ms: int | None = None) -> list[str]:
    bounded = times.not_before(min_ms)
    return [bounded.why(index, min_ms) for index in range(len(times.ms))]


Y2000 = 946_684_800_000
T_S = 1_767_225_602  # 2026-01-01T00:00:02Z


def test_floats_of_seconds_are_read_to_the_microsecond_and_floored():
    seconds = [1767225601.001, 1767225601.0019, -0.5, -0.0005, 0.0, 2, None, 1e300, -1e300]
    column = pl.Series(seconds, dtype=pl.Float64)

    assert shown(column_times(ColumnTime("at", "s"), column)) == [
        1_767_225_601_001, 1_767_225_601_001, -500, -1, 0, 2_000,
        MISSING, OUT_OF_RANGE, OUT_OF_RANGE,
    ]  # fmt: skip


@given(st.integers(-2_000_000_000_000_000, 4_000_000_000_000_000))
def test_a_float_of_seconds_means_the_microsecond_it_was_written_with(us: int):
    column = pl.Series([us / 1e6])

    assert column_times(ColumnTime("at", "s"), column).ms.tolist() == [us // 1_000]


def test_a_float_that_is_no_number_is_out_of_range():
    column = pl.Series([float("nan"), float("inf")])

    assert shown(column_times(ColumnTime("at", "s"), column)) == [OUT_OF_RANGE] * 2


@pytest.mark.parametrize(
    ("unit", "number", "reason"),
    [
        ("ms", T_S, "before min_time 2000-01-01T00:00:00Z in unit ms; in s it would fit"),
        ("ms", T_S * 10**6, "outside the years 0001 to 9999 in unit ms; in us it would fit"),
        ("ms", T_S * 10**9, "outside the years 0001 to 9999 in unit ms; in ns it would fit"),
        ("s", T_S * 10**3, "outside the years 0001 to 9999 in unit s; in ms it would fit"),
        ("us", T_S * 10**3, "before min_time 2000-01-01T00:00:00Z in unit us; in ms it would fit"),
        ("ms", 7, "before min_time 2000-01-01T00:00:00Z in unit ms"),
        ("s", T_S, ""),
    ],
)
def test_a_number_of_another_unit_is_refused_by_unit_and_range(unit: str, number: int, reason: str):
    assert why(column_times(ColumnTime("at", unit), pl.Series([number])), Y2000) == [reason]


def test_min_time_bounds_times_of_every_kind():
    early = "before min_time 2000-01-01T00:00:00Z"
    text = column_times(ColumnTime("at", "iso8601"), pl.Series(["1999-12-31T23:59:59.999Z"]))

    assert why(text, Y2000) == [early]
    assert why(record_times(np.array([Y2000 - 1, Y2000])), Y2000) == [early, ""]
    assert shown(record_times(np.array([5])).not_before(Y2000)) == [TOO_EARLY]
    assert shown(record_times(np.array([5])).not_before(None)) == [5]


def test_expressions_make_milliseconds_or_datetimes():
    instants = pl.Series([-1, None, 1_999], dtype=pl.Datetime("us", "Europe/Berlin"))

    assert shown(value_times(instants)) == [-1, MISSING, 1]
    assert shown(value_times(pl.Series([-1, None, 2**62]))) == [-1, MISSING, OUT_OF_RANGE]


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:05Z", "2026-01-01T02:00:05+02:00", "2025-12-31T17:00:05-0700",
        "2026-01-01T00:00:05.000000Z", "2026-01-01T00:00:05.000000000Z",
        "2026-01-01T00:00:05+00", "2026-01-01 00:00:05Z", "2026-01-01T05:30:05+05:30",
        "2026-01-01T00:00:05",
    ],
)  # fmt: skip
def test_every_spelling_of_an_instant_is_the_same_whatever_the_zone_of_the_machine(
    text: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert texts(text, zone="UTC") == [1_767_225_605_000]
    finally:
        monkeypatch.undo()
        time.tzset()
