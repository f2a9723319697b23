"""Texts in patterns are read as Python's strptime reads them; no text of auto has two readings."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.core.time.assigners import ColumnTime
from tidemark.core.time.column_times import column_times
from tidemark.core.time.event_time import NO_INSTANT, NO_TEXT, NO_UNIT, NO_ZONE_NAME, REASONS
from tidemark.core.time.text_times import NOT_IN_PATTERN, epoch_numbers, text_times
from tidemark.core.time.time_pattern import time_pattern
from tidemark.core.time.time_units import text_patterns
from tidemark.errors import PipelineError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
T_S = 1_767_225_602  # 2026-01-01T00:00:02Z

times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001 - a zone follows
near_times = st.datetimes(datetime(1969, 1, 1), datetime(2068, 12, 31))  # noqa: DTZ001
offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m)))

PATTERNS = (
    "%Y-%m-%d %H:%M:%S.%f%z",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a %b %d %H:%M:%S %z %Y",
    "%A, %d. %B %Y, %I.%M.%S %p %z",
    "%Y%m%d%H%M%S%f%z",
    "%G-W%V-%uT%H:%M:%S%z",
    "%jth of %Y %H:%M %z",
    "%m/%d/%Y %z",
    "100%% %F %T %z",
)


def shown(column, *units, zone=None):
    found = column_times(ColumnTime("at", units if len(units) > 1 else units[0], zone), column)
    return [REASONS[reason] or int(ms) for ms, reason in zip(found.ms, found.reason, strict=True)]


def one(text, *units, zone=None):
    return shown(pl.Series([text]), *units, zone=zone)[0]


def ms_of(text, pattern):
    for short, long in (("%F", "%Y-%m-%d"), ("%T", "%H:%M:%S")):
        pattern = pattern.replace(short, long)
    return (datetime.strptime(text, pattern).astimezone(UTC) - EPOCH) // MS


@pytest.mark.parametrize("pattern", PATTERNS)
@given(time=times.filter(lambda time: time.year >= 1000), offset=offsets)
def test_texts_are_read_as_strptime_reads_them(pattern, time, offset):
    text = time.replace(tzinfo=offset).strftime(pattern)
    assert one(text, pattern) == ms_of(text, pattern)


@given(near_times)
def test_years_of_two_digits_are_those_of_strptime(time):
    text = time.strftime("%d.%m.%y %H:%M")
    expected = ms_of(text + " +0000", "%d.%m.%y %H:%M %z")
    assert one(text, "%d.%m.%y %H:%M", zone="UTC") == expected


@given(st.dates())
def test_every_day_is_read_by_year_and_week_and_day_of_year(day):
    expected = (datetime(day.year, day.month, day.day, tzinfo=UTC) - EPOCH) // MS
    year, week, weekday = day.isocalendar()
    texts = {
        "%Y-%m-%d": day.isoformat(),
        "%Y%m%d": day.isoformat().replace("-", ""),
        "%Y-%j": f"{day.year:04}-{day.timetuple().tm_yday:03}",
        "%G-W%V-%u": f"{year:04}-W{week:02}-{weekday}",
        "%d %B %Y": f"{day.day} {day:%B} {day.year:04}",
    }
    found = {pattern: one(text, pattern, zone="UTC") for pattern, text in texts.items()}
    assert found == dict.fromkeys(texts, expected)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("%Y-%m-%d", "2026-02-29"), ("%Y-%m-%d", "2026-00-01"), ("%Y-%m-%d", "2026-13-01"),
        ("%Y-%m-%d", "2026-01-00"), ("%Y-%m-%d", "0000-01-01"), ("%Y-%j", "2026-366"),
        ("%Y-%j", "2026-000"), ("%G-W%V-%u", "2025-W53-1"), ("%G-W%V-%u", "2026-W00-1"),
        ("%G-W%V-%u", "2026-W01-8"), ("%F %H:%M", "2026-01-01 24:00"),
        ("%F %I %p", "2026-01-01 13 PM"), ("%F %I %p", "2026-01-01 0 AM"),
        ("%F %T", "2026-01-01 00:00:60"), ("%F %T%z", "2026-01-01 00:00:00+24:00"),
        ("%d %b %Y", "1 Janvier 2026"), ("%Y%m%d", "2026111"), ("%F", " 2026-01-01"),
        ("%F", "2026-01-01\n"), ("%F", "\uff12026-01-01"), ("%F", ""), ("%F.%%", "2026-01-01x%"),
        ("%F %T.%f", "2026-01-01 00:00:00.1234567890123"),
    ],
)  # fmt: skip
def test_text_that_is_no_time_of_a_pattern(pattern, text):
    assert one(text, pattern, zone="UTC") == NO_TEXT


@given(times, st.integers(0, 10**12 - 1).map(lambda ps: f"{ps:012}"), st.integers(1, 12))
def test_fractions_of_1_to_12_digits_are_floored(time, digits, count):
    whole = time.replace(microsecond=0, tzinfo=UTC)
    text = f"{whole:%d %b} {whole.year:04} {whole:%H:%M:%S},{digits[:count]}"
    expected = (whole - EPOCH) // MS + int(digits[:count].ljust(3, "0")[:3])
    assert one(text, "%d %b %Y %H:%M:%S%.f", zone="UTC") == expected


AUTO_FORMS = (
    "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S.%f %z", "%Y-%m-%d %H:%M UTC", "%Y%m%dT%H%M%S%z",
    "%Y-%m-%dT%H:%M:%S[Europe/Berlin]", "%Y-%m-%d %H:%M:%S", "%Y%m%dT%H%M",
    "%a, %d %b %Y %H:%M:%S %z", "%d %b %Y %H:%M GMT", "%d/%b/%Y:%H:%M:%S %z", "%d/%b/%Y:%H:%M:%S",
    "%Y/%m/%d %H:%M:%S,%f", "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S Asia/Tokyo %Y",
    "%a %b %d %Y %H:%M:%S GMT%z (CET)", "%d %b %Y %H:%M:%S.%f", "%d-%b-%Y %H:%M:%S EST",
    "%b %d, %Y %I:%M:%S %p", "%b %d, %Y %H:%M:%S PM", "%b %d, %Y, %I:%M:%S %p %z", "%s", "%s%f",
    "%Y%m%d%H%M%S", "%Y%m%d",
)  # fmt: skip


@pytest.mark.parametrize("form", AUTO_FORMS)
@given(time=st.datetimes(datetime(2000, 1, 1), datetime(2099, 12, 31)), offset=offsets)  # noqa: DTZ001
def test_no_text_has_two_readings_in_auto(form, time, offset):
    text = pl.Series([time.replace(tzinfo=offset).strftime(form)])
    readings = set()
    for pattern in text_patterns("auto"):
        found = text_times(text, pattern, "America/New_York")
        if found.fault[0] != NOT_IN_PATTERN:
            readings.add((int(found.fault[0]), int(found.ms[0]) if not found.fault[0] else 0))
    assert len(readings) <= 1
    whole, _ = epoch_numbers(text)
    assert not (readings and whole[0])


@given(st.lists(st.tuples(st.sampled_from(AUTO_FORMS), times, offsets), min_size=2))
def test_auto_reads_a_text_whatever_stands_beside_it(drawn):
    texts = [
        time.replace(year=2026, day=1, tzinfo=offset).strftime(form) for form, time, offset in drawn
    ]
    together = shown(pl.Series(texts), "auto", zone="Europe/Berlin")
    assert together == [one(text, "auto", zone="Europe/Berlin") for text in texts]


@given(st.integers(946_684_800_000_000_000, 4_102_444_799_999_999_999))
def test_a_number_is_read_in_the_unit_that_puts_it_between_2000_and_2100(ns):
    expected = ns // 1_000_000
    numbers = [ns, ns // 1_000, expected, ns // 10**9]
    whole_s = expected // 1000 * 1000
    assert shown(pl.Series(numbers), "epoch") == [expected] * 3 + [whole_s]
    assert shown(pl.Series(map(str, numbers)), "auto") == [expected] * 3 + [whole_s]
    assert one(f"{ns // 10**9}.{ns % 10**9:09}", "epoch") == expected
    assert shown(pl.Series([expected / 1000, float(expected)]), "auto") == [expected] * 2


def test_numbers_outside_2000_to_2100_have_no_unit():
    assert (
        shown(pl.Series([0, -T_S, 946_684_799, 4_102_444_800, 2**63 - 1]), "epoch") == [NO_UNIT] * 5
    )
    assert shown(pl.Series([0.5, float("nan"), float("inf"), T_S * 1e9]), "auto") == [NO_UNIT] * 4
    texts = [
        "0",
        "-1767225602",
        "1767225602.",
        "1e9",
        "9" * 19,
        "9" * 20,
        "20260101000000",
        "٣" * 10,
    ]
    assert shown(pl.Series(texts), "epoch") == [NO_TEXT] * 8


def test_units_are_tried_in_turn_and_the_first_form_counts():
    column = pl.Series(
        ["01/02/2026", "2026-01-02T00:00:00Z", "13/02/2026", None, "1767225602", "x"]
    )
    units = ("%m/%d/%Y", "%d/%m/%Y", "iso8601", "epoch")
    found = column_times(ColumnTime("at", units, "UTC"), column)
    days = [(datetime(2026, *day, tzinfo=UTC) - EPOCH) // MS for day in ((1, 2), (1, 2), (2, 13))]
    assert found.ms[found.known].tolist() == [*days, T_S * 1000]
    assert found.why(5, None) == f"no date and time in unit {' or '.join(units)}"


def test_a_reason_names_the_unit_that_would_read_the_text():
    texts = ["2026-01-02 03:04", "Fri, 2 Jan 2026 03:04 GMT", "1767225602", "May 1, 2026 01:00:00"]
    found = column_times(ColumnTime("at", "%d.%m.%Y"), pl.Series(texts))
    likely = [found.why(index, None).rpartition("; unit ")[2] for index in range(4)]
    assert likely == [f"{unit} would read it" for unit in ("iso8601", "rfc2822", "epoch", "auto")]


@pytest.mark.parametrize("zone", ["EST", "CET", "MEZ", "Mars/Olympus", "Europe/berlin2"])
def test_zones_that_no_one_knows_or_several_share_are_refused(zone):
    assert one(f"2026-01-02 03:04:05 {zone}", "iso8601", zone="UTC") == NO_ZONE_NAME


def test_a_zone_in_the_text_is_that_of_its_local_time():
    texts = [
        "2026-07-01 12:00:00 Europe/Berlin", "2026-07-01 12:00:00 America/New_York",
        "2026-07-01T12:00:00[Asia/Kolkata]", "2026-07-01 12:00:00 utc", "2026-07-01 12:00:00",
        "2026-03-29 02:30:00 Europe/Berlin", "2026-03-29 02:30:00+01:00[Europe/Berlin]",
    ]  # fmt: skip
    noon = (datetime(2026, 7, 1, 12, tzinfo=UTC) - EPOCH) // MS
    hours = [-2, 4, -5.5, 0, -9]
    change = (datetime(2026, 3, 29, 1, 30, tzinfo=UTC) - EPOCH) // MS
    assert shown(pl.Series(texts), "iso8601", zone="Asia/Tokyo") == [
        *(noon + hour * 3_600_000 for hour in hours), NO_INSTANT, change,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "match"),
    [
        ("%d/%m", "no full date"), ("%Y-%m", "no full date"), ("%Y %j %d", "no full date"),
        ("%Q", "no directive %Q; there are %Y"), ("%F %", "no directive %;"),
        ("%F %Y", "two directives give the year"), ("%F %z %z", "two directives give the"),
        ("%F %I", "%I goes with %p"), ("%F %H %p", "%I goes with %p"),
        ("%F %M", "a minute needs an hour"), ("%F %H:%S", "a minute needs an hour"),
        ("%F %H:%M.%f", "%f a second"),
    ],
)  # fmt: skip
def test_a_pattern_that_gives_no_instant_is_refused(pattern, match):
    with pytest.raises(PipelineError, match=match):
        time_pattern(pattern)


@given(st.lists(st.text(alphabet="0123456789-:/ TZ+.,JanFri[]", max_size=40), min_size=1))
def test_any_text_has_a_time_or_a_reason(texts):
    found = column_times(ColumnTime("at", "auto", "UTC"), pl.Series(texts))
    assert np.all(found.known | (found.reason > 0))
