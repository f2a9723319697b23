"""Which of several times of a record is likely its event time."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tidemark.infer.fit import plan_of
from tidemark.infer.inference import infer
from tidemark.infer.module import module_text
from tidemark.infer.sample import Sample, SampleRecord
from tidemark.local.run import LocalRun
from tidemark.serde.formats.source_format import JSON, TextFormat


def time_of(*records):
    values = [SampleRecord(json.dumps(record).encode()) for record in records]
    time = infer(Sample(JSON, values)).time
    assert time is not None
    return ".".join(time.path)


def lines_of(lines):
    return Sample(TextFormat(), [SampleRecord(line.encode()) for line in lines])


def module_of(lines):
    return module_text(infer(lines_of(lines)), "lines", "lines", ())


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
    "line",
    [
        "haproxy[14389]: 10.0.1.2:3000 [02/Jan/2026:03:04:05.250] http-in static/srv1 10/0/30",
        "1767323045.250     17 192.168.0.1 TCP_MISS/200 3401 GET http://x/ - DIRECT/1.2.3.4",
        "type=SYSCALL msg=audit(1767323045.250:101): arch=c000003e syscall=59 success=yes",
    ],
)
def test_lines_have_times_with_ms_without_offset_or_in_seconds(line):
    text = module_of([line] * 3)
    run = LocalRun(plan_of(text))
    list(run.run({"lines": [line.encode()] * 3}))
    (results,) = run.published.values()
    assert run.dead_letters == []
    time = infer(lines_of([line])).time
    assert time is not None
    assert [*time.ms] == [1767323045250]
    assert results.tally.accepted == 3
