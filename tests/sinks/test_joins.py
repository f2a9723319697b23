"""Rows of joins as every sink gets them, with withdrawals, from topics in JSON and in Avro."""

import json

import pytest

from tests.sinks.places import CASES, PLACES, deliver, in_columns, plain
from tidemark import Pipeline, bounded, on_close, tumbling
from tidemark.core.operators.ports import ROWS
from tidemark.core.operators.rows import ID
from tidemark.local.run import Cuts, LocalRun
from tidemark.plan.logical import Format
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.sinks.table import tables_of

ORDERS = [("a", 0), ("b", 1_000), ("c", 20_000), ("b", 30_000), ("a", 5_000), ("z", 90_000)]
PAYMENTS = [("b", 500), ("x", 25_000), ("a", 6_000), ("c", 21_000), ("b", 29_000), ("z", 90_000)]
"""Keys and times, ms.  The payments of a and b come after the clock has passed their orders."""


class OneByOne(Cuts):
    """A segment for each record, so that a late partner comes after a row without one."""

    def next(self) -> int:
        return 1


def build(format_: Format) -> Pipeline:
    pipeline = Pipeline("shop", partitions=1)
    orders, payments = (
        pipeline.source(
            topic,
            schema={"id": str, "at": int, value: int, "tags": list[str]},
            event_time="at",
            watermark=bounded("0s"),
        ).key_by("id")
        for topic, value in (("orders", "price"), ("payments", "paid"))
    )
    joined = orders.join(
        payments, within="2s", how="full", allowed_lateness="40s", trigger=on_close()
    )
    joined.to("both", format=format_)
    return pipeline


@pytest.mark.parametrize(("name", "format_"), CASES)
def test_rows_of_a_join_that_stand_at_the_end_are_in_every_sink(tmp_path, name, format_):
    place = PLACES[name]
    plan = build(format_).plan()
    (operator,) = plan.operators
    local = LocalRun(plan, OneByOne())
    records = {
        topic: [
            json.dumps({"id": key, "at": at, value: at, "tags": [key]}).encode() for key, at in rows
        ]
        for topic, value, rows in (("orders", "price", ORDERS), ("payments", "paid", PAYMENTS))
    }
    list(local.run(records))
    results = local.published["both"]
    published, stands = results.every(ROWS), results.last(ROWS)
    assert published["retracted"].any()
    assert published.height > stands.height > 0
    table = next(each for each in tables_of(plan) if each.topic == "shop.both")
    assert table.key == table.window == (ID,)
    held = deliver(place(tmp_path), table, *encoder_of(operator.results).encode(published))
    rows = plain(in_columns(stands, table).to_dicts(), table)
    assert sorted(held, key=lambda row: row[ID]) == sorted(rows, key=lambda row: row[ID])


def test_a_window_join_has_the_bounds_of_its_windows_as_times():
    pipeline = Pipeline("shop", partitions=1)
    orders, payments = (
        pipeline.source(
            topic, schema={"id": str, "at": int}, event_time="at", watermark=bounded("0s")
        ).key_by("id")
        for topic in ("orders", "payments")
    )
    orders.join(payments, window=tumbling("1m")).to("both")
    table = next(each for each in tables_of(pipeline.plan()) if each.topic == "shop.both")
    times = ("_window_start", "_window_end", "_event_time")
    assert tuple(table.columns)[-3:] == times
    assert {*times} <= table.instants
