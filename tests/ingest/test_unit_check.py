"""A forgotten unit: times that are valid, and far from those of the records."""

import json

import numpy as np
import pytest

from tidemark import INGEST_TIME, Pipeline, bounded, col, count, tumbling
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.ingest.unit_check import UnitCheck

T = 1_767_225_600_000  # 2026-01-01
YEAR_MS = 365 * 86_400_000


def plan(schema=None, **options):
    pipeline = Pipeline("p")
    settings = {"event_time": "ts", "watermark": bounded("0s"), **options}
    rows = pipeline.source("in", schema=schema or {"k": str, "ts": int}, **settings).filter(
        col("k") != "no"
    )
    rows.key_by("k").window(tumbling("1m")).aggregate(n=count()).to("out")
    return pipeline.plan()


def batch(*records, stamp=T, first=0):
    values = [json.dumps({"k": k, "ts": ts}).encode() for k, ts in records]
    made = RecordBatch.of_values("in", 0, first, values, T)
    return made if stamp is None else _stamped(made, stamp)


def _stamped(made, stamp):
    return RecordBatch(
        made.topic,
        made.partition,
        np.asarray(made.offsets),
        [stamp] * len(made),
        made.keys,
        made.headers,
        made.values,
        made.next_offset,
        made.received_at_ms,
    )


def warnings(compiled, *batches):
    ingest, check, progress, found = Ingest(compiled), UnitCheck(compiled), Progress(), []
    for each in batches:
        taken = ingest.take(each, progress)
        progress = taken.progress
        found.append(check.warning(each, taken))
    return found


@pytest.mark.parametrize("stamp", [T, T + YEAR_MS // 2, None, -1])
def test_seconds_read_as_milliseconds_are_told_at_the_first_row_only(stamp):  # D9
    first = batch(("no", T // 1000), stamp=stamp)
    second = batch(("a", T // 1000), ("b", T), stamp=stamp, first=1)
    third = batch(("a", T // 1000), stamp=stamp, first=3)
    none, told, again = warnings(plan(), first, second, third)
    assert (none, again) == (None, None)
    assert told is not None
    assert told.startswith(
        "raw topic in: the event time of the first row is 1970-01-21T10:53:45.600000Z, its record "
        "is of 202"
    )
    assert told.endswith(
        'the number is read as ms, and as s it would be 2026-01-01T00:00:00Z: is unit="s" missing?'
    )


@pytest.mark.parametrize(
    ("unit", "ts", "likely"),
    [
        ("ns", T, "ms"),
        ("ns", T // 1000, "s"),
        ("ns", T * 1000, "us"),
        ("us", T, "ms"),
        ("ms", T // 1000, "s"),
        ("ms", T, None),
        ("ms", T - 2 * YEAR_MS, None),  # records of the past are read again
        ("ms", T // 1000 * 10, None),
        ("ms", 1_000, None),
    ],
)
def test_the_likely_unit_is_the_one_that_is_near(unit, ts, likely):
    (told,) = warnings(plan(unit=unit), batch(("a", ts)))
    assert (told is None) is (likely is None)
    assert likely is None or f'is unit="{likely}" missing?' in str(told)


def test_an_expression_is_read_as_milliseconds_and_a_clock_has_no_unit():
    seconds = batch(("a", T // 1000))
    assert "the expression must give ms" in str(warnings(plan(event_time=col("ts")), seconds)[0])
    assert warnings(plan(event_time=INGEST_TIME), seconds) == [None]


def first_text(text, stamp, **options):
    compiled = plan(schema={"k": str, "ts": str}, **options)
    return warnings(compiled, batch(("a", text), stamp=stamp))[0]


def test_day_and_month_in_the_wrong_order_are_told():  # D9
    second_of_january = T + 86_400_000
    american = {"unit": "%m/%d/%Y %H:%M", "zone": "UTC"}
    assert first_text("02/01/2026 00:00", second_of_january, **american).endswith(
        "with day and month swapped it would be 2026-01-02T00:00:00Z: is the order of %d and %m in "
        "'%m/%d/%Y %H:%M' right?"
    )
    assert first_text("01/02/2026 00:00", second_of_january, **american) is None
    assert first_text("02/13/2026 00:00", second_of_january, **american) is None
    assert first_text("06/07/2024 00:00", second_of_january, **american) is None


def test_texts_of_another_zone_are_told_when_they_are_in_the_future():  # D9
    in_utc = {"unit": "iso8601", "zone": "UTC"}
    assert first_text("2026-01-01 01:00:00", T, **in_utc).endswith(
        "it is later than its record: is zone='UTC' the zone of the texts?"
    )
    assert first_text("2026-01-01 00:05:00", T, **in_utc) is None
    assert first_text("2025-12-31 23:00:00", T, **in_utc) is None
    assert first_text("2026-01-01T01:00:00Z", T, unit="iso8601") is None
