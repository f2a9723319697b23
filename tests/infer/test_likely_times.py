"""Which of several times of a record is likely its event time."""

import json
from datetime import UTC, datetime, timedelta

from tidemark.infer.inference import infer
from tidemark.infer.sample import Sample, SampleRecord
from tidemark.serde.formats.source_format import JSON


def time_of(*records):
    values = [SampleRecord(json.dumps(record).encode()) for record in records]
    time = infer(Sample(JSON, values)).time
    assert time is not None
    return ".".join(time.path)


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
