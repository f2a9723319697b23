"""Calendar windows: docs/semantics.md, "Calendar"; checked by the standard library's zones."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.aligned import windowed
from tests.oracles.calendar import EPOCH, WEEKDAYS, Periods
from tests.support.logs import COLUMNS, cut_segments, event_logs, raws, recordings
from tests.support.running import AGGREGATION, incidents, over, run
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.trigger import on_close, on_final
from tidemark.errors import PipelineError

HOUR_MS = 3_600_000


def window(spec, at):
    """Show the window that an instant is in, in local time, and its hours."""
    at_ms = np.array([ms(at)])
    start_ms, end_ms = int(spec.slice_start(at_ms)[0]), int(spec.last_end(at_ms)[0])
    assert spec.start_of(np.array([end_ms])) == [start_ms]
    assert spec.end_until(np.array([end_ms - 1, end_ms])).tolist() == [start_ms, end_ms]
    assert end_ms - start_ms <= spec.longest_ms
    local = pl.Series([start_ms, end_ms]).cast(pl.Datetime("ms", "UTC"))
    shown = local.dt.convert_time_zone(spec.zone).dt.strftime("%m-%d %H:%M").to_list()
    return f"{shown[0]} to {shown[1]}, {(end_ms - start_ms) / HOUR_MS:g} h"


def ms(text):
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("zone", "at", "expected"),
    [
        ("Europe/Berlin", "2024-01-01T22:59", "01-01 00:00 to 01-02 00:00, 24 h"),
        ("Europe/Berlin", "2024-01-01T23:00", "01-02 00:00 to 01-03 00:00, 24 h"),
        # the clocks go from 2:00 to 3:00; from 3:00 to 2:00
        ("Europe/Berlin", "2024-03-31T00:00", "03-31 00:00 to 04-01 00:00, 23 h"),
        ("Europe/Berlin", "2024-10-27T22:59", "10-27 00:00 to 10-28 00:00, 25 h"),
        ("Europe/Berlin", "1916-04-30T12:00", "04-30 00:00 to 05-01 00:00, 23 h"),
        # from 0:00 to 1:00: no midnight; from 1:00 to 0:00: two
        ("Africa/Cairo", "2024-04-26T12:00", "04-26 01:00 to 04-27 00:00, 23 h"),
        ("America/Havana", "2023-11-05T04:30", "11-05 00:00 to 11-06 00:00, 25 h"),
        # from 0:01 back to 23:01 of the day before, which ends only once
        ("America/St_Johns", "2006-10-29T02:40", "10-29 00:00 to 10-30 00:00, 25 h"),
        # 30 December 2011 was left out
        ("Pacific/Apia", "2011-12-30T09:59", "12-29 00:00 to 12-31 00:00, 24 h"),
        ("Pacific/Apia", "2011-12-30T10:00", "12-31 00:00 to 01-01 00:00, 24 h"),
        ("America/Juneau", "1867-10-19T12:00", "10-19 00:00 to 10-20 00:00, 48 h"),
        ("Asia/Kathmandu", "2024-05-05T18:15", "05-06 00:00 to 05-07 00:00, 24 h"),
    ],
)
def test_a_day_is_as_long_as_its_clocks_make_it(zone, at, expected):
    assert window(Calendar("day", zone), at) == expected


def test_weeks_begin_on_the_weekday_that_is_asked():
    #  Mo 25 March  ...  Su 31: 23 h  Mo 1 April
    monday, sunday = Calendar("week", "Europe/Berlin"), Calendar("week", "Europe/Berlin", "sunday")
    assert window(monday, "2024-03-31T12:00") == "03-25 00:00 to 04-01 00:00, 167 h"
    assert window(sunday, "2024-03-31T12:00") == "03-31 00:00 to 04-07 00:00, 167 h"
    assert window(sunday, "1969-12-31T12:00") == "12-28 00:00 to 01-04 00:00, 168 h"


def test_months_are_as_long_as_they_are():
    months = Calendar("month", "Europe/Berlin")
    assert window(months, "2024-02-10T00:00") == "02-01 00:00 to 03-01 00:00, 696 h"
    assert window(months, "2024-03-10T00:00") == "03-01 00:00 to 04-01 00:00, 743 h"
    assert window(months, "1969-12-31T23:30") == "01-01 00:00 to 02-01 00:00, 744 h"


def test_times_beyond_all_events_have_bounds_too():
    for period in ("day", "week", "month"):
        ends = Calendar(period, "Europe/Berlin").end_until(np.array([NEVER_MS, 2**63 - 1]))
        assert ends[0] < ms("0001-01-01") < ms("9999-12-31") < ends[1]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Calendar("year", "UTC"), "'year' is not one of day, week, month"),
        (lambda: Calendar("day", "Berlin"), "zone 'Berlin' is not a time zone such as"),
        (lambda: Calendar("day", None), "zone None is not a time zone"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: Calendar("day", ""), "zone '' is not a time zone"),
        (lambda: Calendar("week", "UTC", "Monday"), "week_start 'Monday' is not one of monday"),
    ],
)
def test_what_is_no_calendar_is_refused(made, message):
    with pytest.raises(PipelineError, match=message):
        made()


BASES = [ms(f"{day}T00:00") for day in ("2024-03-30", "2024-10-26", "2023-11-04", "1969-12-30")]


def specs():
    return st.builds(
        Periods,
        st.sampled_from(("day", "day", "week", "month")),
        st.sampled_from(("Europe/Berlin", "America/Havana", "Africa/Cairo", "Asia/Kathmandu")),
        st.sampled_from(WEEKDAYS),
        st.sampled_from((0, 3 * HOUR_MS, 40 * HOUR_MS)),
        st.booleans(),
    )


def stretched(segments, base_ms):
    """Return a log whose milliseconds became hours after a base."""
    return [_stretched(segment, base_ms) for segment in segments]


def _stretched(segment, base_ms):
    def moved(at_ms):
        return at_ms if at_ms == NEVER_MS else at_ms * HOUR_MS + base_ms

    marks = tuple(
        replace(
            mark,
            watermark_before_ms=moved(mark.watermark_before_ms),
            watermark_ms=moved(mark.watermark_ms),
            silence_ms=mark.silence_ms * HOUR_MS,
        )
        for mark in segment.sources
    )
    hours = [
        pl.when(pl.col(name) == NEVER_MS)
        .then(NEVER_MS)
        .otherwise(pl.col(name).clip(-(10**6), 10**6) * HOUR_MS + base_ms)
        .alias(name)
        for name in (EVENT_TIME, WATERMARK)
    ]
    streams = {name: frame.with_columns(hours) for name, frame in segment.streams.items()}
    return replace(segment, sources=marks, streams=streams)


def operator(spec, topics):
    body = WindowAggregate(
        Calendar(spec.period, spec.zone, spec.week_start),
        AGGREGATION,
        ("key",),
        COLUMNS,
        spec.allowed_lateness_ms,
        on_final() if spec.on_final else on_close(),
    )
    return over(topics, body)


@given(event_logs(), st.sampled_from(BASES), specs(), incidents())
def test_panes_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(
    log, base_ms, spec, happen
):
    segments = stretched(log.segments, base_ms)
    expected = windowed(segments, log.topics, spec)
    got = run(operator(spec, log.topics), segments, happen)
    assert got.late == expected.late
    assert got.steps == expected.steps


@given(st.data(), event_logs(), st.sampled_from(BASES), specs())
def test_cuts_change_no_late_row_no_on_time_pane_and_no_last_pane(data, log, base_ms, spec):
    segments = stretched(log.segments, base_ms)
    whole = run(operator(spec, log.topics), segments)
    cut = run(operator(spec, log.topics), data.draw(cut_segments(segments)))
    assert cut.late == whole.late
    assert cut.lasts() == whole.lasts()
    assert cut.on_time() == whole.on_time()


@given(st.data(), raws(), st.sampled_from(BASES), specs())
def test_two_recordings_of_the_same_topics_agree(data, raw, base_ms, spec):
    runs = [
        run(
            operator(spec, raw.topics),
            stretched(data.draw(recordings(raw)).segments, base_ms),
        )
        for _ in range(2)
    ]
    assert sorted(runs[0].late, key=str) == sorted(runs[1].late, key=str)
    assert runs[0].lasts() == runs[1].lasts()
