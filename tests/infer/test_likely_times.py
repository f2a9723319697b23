"""Which of several times of a record is likely its event time, and how its values are read."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.infer.modules import T, half_hours, of, run
from tidemark.core.operators.ports import PANES
from tidemark.infer.fit import fitted_module
from tidemark.infer.inference import infer
from tidemark.infer.sample import Sample, SampleRecord
from tidemark.serde.formats.source_format import JSON, TextFormat


def time_of(*records):
    values = [SampleRecord(json.dumps(record).encode()) for record in records]
    time = infer(Sample(JSON, values)).time
    assert time is not None
    return ".".join(time.path)


def lines_of(lines):
    return Sample(TextFormat(), [SampleRecord(line.encode()) for line in lines])


def minutes(number):
    return f"{datetime(2026, 1, 2, tzinfo=UTC) + timedelta(minutes=number):%FT%TZ}"


def test_times_of_objects_that_an_event_refers_to_are_less_likely():
    records = [
        {
            "status": "ab"[n % 2],
            "attributes": {"created_at": minutes(n)},
            "commit": {"timestamp": minutes(n - 1 - n % 3)},
            "previous_attributes": {"timestamp": minutes(n - 2)},
        }
        for n in range(20)
    ]
    assert time_of(*records) == "attributes.created_at"
    alone = time_of(*({"commit": each["commit"]} for each in records))
    assert alone == "commit.timestamp"


def test_a_time_that_is_the_same_in_all_records_is_less_likely():
    records = [{"place": {"created_at": minutes(0)}, "read_ts": minutes(n)} for n in range(20)]
    assert time_of(*records) == "read_ts"
    still = time_of(*({"place": each["place"]} for each in records))
    assert still == "place.created_at"


def test_updates_of_objects_have_the_time_of_the_update():
    made = [n * 7 % 20 for n in range(20)]
    updates = [
        {"pr": {"created_at": minutes(m), "updated_at": minutes(30 + n)}}
        for n, m in enumerate(made)
    ]
    assert time_of(*updates) == "pr.updated_at"
    orders = [{"created_at": minutes(n), "updated_at": minutes(30 + m)} for n, m in enumerate(made)]
    assert time_of(*orders) == "created_at"
    late = [{"measured_at": minutes(m), "updated_at": minutes(30 + n)} for n, m in enumerate(made)]
    assert time_of(*late) == "measured_at"


@pytest.mark.parametrize(
    ("begin", "column"), [(2463457000, "received_at"), (1772366400, "s.timestamp")]
)
def test_numbers_years_after_texts_are_not_the_event_time(begin, column):
    text = of(
        *(
            {
                "received_at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
                "s": {"timestamp": begin + 9 * n},
                "k": n % 3,
            }
            for n, at in enumerate(half_hours(20))
        )
    )
    assert f'    event_time="{column}",' in text


def test_numbers_that_grow_are_times_but_ids_are_not():
    first = 1_767_225_600_000
    records = [{"k": "a", "id": first + n, "valid": first + n} for n in range(20)]
    assert 'event_time="valid",\n    unit="ms",' in of(*records)
    assert "event_time=INGEST_TIME" in of(*({"k": "a", "id": first + n} for n in range(20)))


@pytest.mark.parametrize(
    ("odd", "column"),
    [
        ("soon", 'field("at", str, lenient=True)'),
        ("1767323045678", 'field("at", int, lenient=True)'),
        (1767323045678.5, "float"),
        (True, 'field("at", str, lenient=True)'),
    ],
)
@pytest.mark.parametrize("every", [2, 9])
def test_a_time_of_numbers_and_other_values_is_read_from_all_of_them(odd, column, every):
    times = [T + n if n % every else odd for n in range(90)]
    text = of(*({"k": f"k{n % 3}", "at": at} for n, at in enumerate(times)))
    assert f'"at": {column},' in text
    dead = odd in ("soon", True)
    if dead and every == 2:
        assert "event_time=INGEST_TIME," in text
        return
    assert 'event_time="at",' in text
    assert f"# 90 records = {80 if dead else 90} that fit" in text


def test_the_pattern_of_a_text_is_named():
    text = of({"k": "a", "created": "Fri Jan 02 03:04:05 +0000 2026"})
    assert 'event_time="created",\n    unit="%a %b %d %H:%M:%S %z %Y",' in text
    text = of({"k": "a", "Order Date": "1/2/2026 3:04:05 AM"})
    assert 'unit="%m/%d/%Y %I:%M:%S %p",\n    zone="UTC",  # a guess' in text


def test_all_records_decide_on_the_order_of_day_and_month():
    text = of(
        *({"k": n % 4, "when": f"{at:%d/%m/%Y %H:%M}"} for n, at in enumerate(half_hours(600)))
    )
    assert 'unit="%d/%m/%Y %H:%M",' in text
    assert " 600 that fit + 0 dead " in text
    assert "another order of day and month" not in text


@pytest.mark.parametrize("order", ["%d/%m/%Y", "%m/%d/%Y"])
def test_of_two_orders_of_day_and_month_the_one_with_the_shorter_time_is_taken(order):
    shown = [f"{at:{order} %H:%M}" for at in half_hours(300)]
    text = of(*({"k": n % 4, "when": each} for n, each in enumerate(shown)))
    assert f'unit="{order} %H:%M",' in text
    assert "A guess: another order of day and month reads all texts too." in text


@pytest.mark.parametrize(
    "line",
    [
        "haproxy[14389]: 10.0.1.2:3000 [02/Jan/2026:03:04:05.250] http-in static/srv1 10/0/30",
        "1767323045.250     17 192.168.0.1 TCP_MISS/200 3401 GET http://x/ - DIRECT/1.2.3.4",
        "type=SYSCALL msg=audit(1767323045.250:101): arch=c000003e syscall=59 success=yes",
    ],
)
def test_lines_have_times_with_ms_without_offset_or_in_seconds(line):
    ran = run(fitted_module(lines_of([line] * 3), "lines", "lines"), [line.encode()] * 3)
    assert ran.dead_letters == []
    time = infer(lines_of([line])).time
    assert time is not None
    assert [*time.ms] == [1767323045250]
    assert ran.published["counts"].last(PANES)["n"].sum() == 3
