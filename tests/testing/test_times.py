"""Columns of times, in process: event time, keys, state, results and late rows."""

from datetime import UTC, date, datetime
from typing import Literal

from tidemark import Pipeline, bounded, col, collect, count, csv, field, last, tumbling
from tidemark import max as largest
from tidemark.testing import InProcess

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
TEXT = "2026-01-02T03:04:05.678Z"
ORDER = {"at": TEXT, "day": "2026-01-02", "k": "a", "meta": {"made": 1_767_323_040}}


def pipeline(form: Literal["json", "avro"]) -> Pipeline:
    made = Pipeline("times")
    orders = made.source(
        "orders",
        schema={
            "at": datetime,
            "day": date,
            "made": field("meta.made", datetime, unit="s"),
            "k": str,
            "o": {"seen": list[datetime]},
        },
        event_time="at",
        watermark=bounded("1s"),
    )
    orders = orders.filter(col("at") > datetime(2026, 1, 1, tzinfo=UTC)).with_columns(
        took=(col("at") - col("made")).dt.total_milliseconds()
    )
    orders = orders.apply(
        lambda row: {"next": row["made"].replace(microsecond=1_999), "due": row["day"]},
        columns={"next": datetime, "due": date},
    )
    windows = orders.key_by("k", "made", "due").window(tumbling("1m"))
    windows.aggregate(
        n=count(),
        last=last("at"),
        all=collect("day"),
        o=last("o"),
        next=last("next"),
        took=largest("took"),
    ).to("by-key", format=form)
    orders.key_by("made").window(tumbling("1m")).aggregate(n=count()).to("by-time", format=form)
    return made


def run(form: Literal["json", "avro"]):
    with InProcess(pipeline(form)) as running:
        running.send("orders", {**ORDER, "o": {"seen": [TEXT, None]}}, {**ORDER, "day": "2 Jan"})
        running.crash("windowing")
        running.send("orders", {**ORDER, "meta": {"made": 1_767_323_040.0}})
        running.restart("windowing")
        running.advance("orders", "2026-01-02T03:14:05Z")
        running.send("orders", ORDER)
        (letter,) = running.dead_letters()
        assert letter["reason"] == "column day: no date and time in unit %Y-%m-%d"
        return running.panes("by-key"), running.panes("by-time"), running.late("by-time")


def test_times_are_texts_in_json():
    ((pane,), (by_time,), (late,)) = run("json")
    assert pane["made"] == by_time["made"] == late["row"]["made"] == "2026-01-02T03:04:00.000Z"
    assert (pane["last"], pane["due"], pane["all"]) == (TEXT, ORDER["day"], [ORDER["day"]] * 2)
    assert (pane["o"], pane["next"]) == ({"seen": [TEXT, None]}, "2026-01-02T03:04:00.001Z")
    assert (pane["took"], by_time["n"], late["row"]["at"]) == (5_678, 2, TEXT)


def test_times_are_logical_types_in_avro():
    ((pane,), (by_time,), (late,)) = run("avro")
    made = AT.replace(second=0, microsecond=0)
    assert pane["made"] == by_time["made"] == late["row"]["made"] == made
    assert (pane["last"], pane["due"]) == (AT, AT.date())


def test_times_are_fields_of_csv():
    made = Pipeline("csv")
    trips = made.source(
        "trips",
        schema={
            "at": datetime,
            "day": date,
            "local": field("local", datetime, unit="%d.%m.%Y %H:%M", zone="Europe/Berlin"),
            "ms": field("ms", datetime, unit="ms"),
        },
        format=csv(delimiter=";"),
        event_time="at",
        watermark=bounded("1s"),
    )
    trips = trips.with_columns(text=col("local").dt.to_string("%H:%M"), k=col("at").is_null())
    windows = trips.key_by("k").window(tumbling("1m"))
    windows.aggregate(day=last("day"), local=last("text"), ms=last("ms"), n=count()).to("out")
    with InProcess(made) as running:
        lines = [
            f"{TEXT};2026-01-02;02.01.2026 04:03;1767323040000",
            "2026-01-02T03:04:10+00:00;;;",
            "1767323051;-;NA;",
            f"{TEXT};2 Jan;;",
            f"{TEXT};;;1.5",
        ]
        running.send("trips", *[line.encode() for line in lines])
        reasons = [letter["reason"] for letter in running.dead_letters()]
        running.send("trips", b"2026-01-02T03:14:05Z;;;")
        (pane,) = running.panes("out")
    assert (pane["day"], pane["local"]) == ("2026-01-02", "03:03")
    assert (pane["ms"], pane["n"]) == ("2026-01-02T03:04:00.000Z", 3)
    assert reasons == [
        "column day: no date and time in unit %Y-%m-%d",
        "column ms: expected datetime in unit ms, got str",
    ]
