"""``join`` as users write it: the rows and times of results, late rows, plans, and chains."""

from datetime import datetime

import pytest

from tests.support.mistakes import moves, refused
from tidemark import Pipeline, bounded, col, count, hopping, on_close, on_final, session, tumbling
from tidemark import sum as total
from tidemark.commands.schemas import result_schemas
from tidemark.language.keyed import KeyedStream
from tidemark.local.run import LocalRun
from tidemark.local.view import summary
from tidemark.plan.explain import render_mermaid, render_text
from tidemark.testing import InProcess

MINUTE = 60_000


def shop(delay: str = "0s", partitions: int = 2) -> tuple[Pipeline, KeyedStream, KeyedStream]:
    pipeline = Pipeline("shop", partitions=partitions)
    orders = pipeline.source(
        "orders",
        schema={"id": str, "at": int, "price": int, "until": int},
        event_time="at",
        watermark=bounded(delay),
    )
    payments = pipeline.source(
        "payments",
        schema={"order": str, "at": int, "paid": int},
        event_time="at",
        watermark=bounded(delay),
    )
    return pipeline, orders.key_by(order="id"), payments.key_by("order")


def test_bytes_are_refused_in_results_but_not_on_the_way_to_the_next_operators():
    pipeline = Pipeline("p")
    schema = {"id": str, "at": int, "body": bytes}
    sides = [
        pipeline.source(topic, schema=schema, event_time="at", watermark=bounded("0s"))
        for topic in ("a", "b")
    ]
    rows = sides[0].key_by("id").join(sides[1].key_by("id"), within="1m")
    with refused("column 'body' is Binary, and results cannot hold bytes; make them text first"):
        rows.to("plain")
    rows.select("id", size=col("body").bin.size()).to("sizes")
    run = InProcess(pipeline)
    run.send("a", {"id": "x", "at": 1, "body": "AQI="})
    run.send("b", {"id": "x", "at": 2, "body": "AQI="})
    run.idle("a", "1h")
    run.idle("b", "1h")
    assert [row["size"] for row in run.published("sizes")] == [2]


def test_a_key_under_another_name_joins():
    pipeline, orders, payments = shop()
    orders.join(payments, within=("0s", "10m"), how="left").to("paid")
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 0, "price": 7}, {"id": "b", "at": MINUTE, "price": 8})
    run.send("payments", {"order": "a", "at": 10 * MINUTE, "paid": 7})
    run.send("payments", {"order": "b", "at": 11 * MINUTE + 1, "paid": 8})
    run.send("orders", {"id": "c", "at": 30 * MINUTE, "price": 9})
    run.send("payments", {"order": "d", "at": 30 * MINUTE, "paid": 1})
    found = {row["order"]: row for row in run.published("paid")}
    assert {key: row["paid"] for key, row in found.items()} == {"a": 7, "b": None}
    assert (found["a"]["price"], found["a"]["at"], found["a"]["at_right"]) == (7, 0, 10 * MINUTE)
    assert found["a"]["_event_time_ms"] == found["b"]["_event_time_ms"] - MINUTE == 10 * MINUTE
    assert len(found["a"]["_id"]) == 32


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", {("a", 1, 5)}),
        ("left", {("a", 1, 5), ("b", 2, None)}),
        ("right", {("a", 1, 5), ("c", None, 6)}),
        ("full", {("a", 1, 5), ("b", 2, None), ("c", None, 6)}),
        ("semi", {("a", 1, None)}),
        ("anti", {("b", 2, None)}),
    ],
)
def test_every_kind_of_join(how, expected):
    pipeline, orders, payments = shop()
    orders.join(payments, within="1m", how=how, on=col("price") + 4 == col("paid")).to("out")
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 0, "price": 1}, {"id": "b", "at": 0, "price": 2})
    run.send("payments", {"order": "a", "at": 1, "paid": 5}, {"order": "c", "at": 1, "paid": 6})
    run.send("payments", {"order": "b", "at": MINUTE + 1, "paid": 6})
    run.crash("joins")
    run.restart("joins")
    run.send("orders", {"id": "z", "at": 2 * MINUTE + 2, "price": 0})
    run.send("payments", {"order": "y", "at": 2 * MINUTE + 2, "paid": 0})
    found = {(row["order"], row.get("price"), row.get("paid")) for row in run.published("out")}
    assert found - {("b", None, 6)} == expected
    assert (("b", None, 6) in found) == (how in ("right", "full"))
    assert ("paid" in run.published("out")[0]) == (how not in ("semi", "anti"))


def test_a_late_partner_withdraws_an_unmatched_row():
    pipeline, orders, payments = shop()
    joined = orders.join(
        payments, within=("0s", "1m"), how="left", allowed_lateness="5m", trigger=on_close()
    )
    joined.to("now")
    joined.select("order", "paid").to("final")
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 0, "price": 1}, {"id": "z", "at": 2 * MINUTE, "price": 0})
    run.send("payments", {"order": "z", "at": 2 * MINUTE, "paid": 0})
    assert [row["paid"] for row in run.panes("now") if row["order"] == "a"] == [None]
    run.send("payments", {"order": "a", "at": 30_000, "paid": 9})
    assert [row["paid"] for row in run.panes("now") if row["order"] == "a"] == [9]
    assert any(row.get("retracted") for row in run.published("now"))
    run.idle("orders", "1h")
    run.idle("payments", "1h")
    assert sorted((row["order"], row["paid"]) for row in run.published("final")) == [
        ("a", 9),
        ("z", 0),
    ]


def test_late_rows_have_a_topic_for_each_side():
    pipeline, orders, payments = shop()
    orders.join(payments, within="1m").to("out")
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 5_000, "price": 1}, {"id": "a", "at": 4_000, "price": 2})
    run.send("payments", {"order": "a", "at": 9_000, "paid": 1})
    run.send("payments", {"order": "a", "at": 8_000, "paid": 3})
    late = {row["topic"]: row["row"] for row in run.late("out")}
    assert (late["orders"]["price"], late["payments"]["paid"]) == (2, 3)
    topics = {each.topic for operator in pipeline.plan().operators for each in operator.published}
    assert topics == {"shop.out", "shop.out.late-left", "shop.out.late-right"}


def test_rows_of_one_window_join():
    pipeline, orders, payments = shop()
    hours = orders.join(payments, window=hopping("1h", "30m"), how="left")
    hours.select("order", "paid").to("out")
    each = hours.key_by("order").window(tumbling("30m"))
    each.aggregate(n=count(), paid=total("paid")).to("sums")
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 40 * MINUTE, "price": 1})
    run.send("payments", {"order": "a", "at": 10 * MINUTE, "paid": 5})
    run.send("payments", {"order": "a", "at": 70 * MINUTE, "paid": 6})
    run.send("orders", {"id": "a", "at": 40 * MINUTE - 1, "price": 2})
    run.idle("orders", "3h")
    run.idle("payments", "3h")
    found = {(row["paid"], row["_event_time_ms"] + 1) for row in run.published("out")}
    assert found == {(5, 60 * MINUTE), (6, 90 * MINUTE)}
    assert [(p["end"], p["n"], p["paid"]) for p in run.panes("sums")] == [
        (60 * MINUTE, 2, 10),
        (90 * MINUTE, 2, 12),
    ]


def test_a_window_join_shows_the_bounds_of_its_windows_and_late_rows():
    pipeline, orders, payments = shop()
    orders.join(payments, window=tumbling("1h"), how="full").to("out", format="avro")
    plan = pipeline.plan()
    assert "full join in tumbling(1h)  <-" in render_text(plan)
    names = [field["name"] for field in result_schemas(plan)["shop.out"]["fields"]]
    assert names[-3:] == ["_window_start_ms", "_window_end_ms", "_event_time_ms"]
    run = InProcess(pipeline)
    run.send("payments", {"order": "a", "at": 50 * MINUTE, "paid": 5})
    run.send("orders", {"id": "a", "at": 5 * MINUTE, "price": 1})
    run.send("orders", {"id": "b", "at": 65 * MINUTE, "price": 1})
    run.send("orders", {"id": "a", "at": 59 * MINUTE, "price": 1})
    (row,) = run.published("out")
    assert (row["_window_start_ms"], row["_window_end_ms"]) == (0, 60 * MINUTE)
    assert row["_event_time_ms"] == 60 * MINUTE - 1
    assert [late["late_by_ms"] for late in run.late("out")] == [5 * MINUTE]


def test_rows_of_one_session_join():
    pipeline, orders, payments = shop("5m")
    visits = orders.join(payments, window=session("10m"), how="left", allowed_lateness="1m")
    visits.to("out", format="avro")
    sums = visits.key_by("order").window(tumbling("1h")).aggregate(n=count(), paid=total("paid"))
    sums.to("sums")
    assert "left join in session(10m), allowed lateness 1m  <-" in render_text(pipeline.plan())
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 0, "price": 1}, {"id": "b", "at": 0, "price": 2})
    run.send("payments", {"order": "a", "at": 15 * MINUTE, "paid": 5})
    run.send("orders", {"id": "a", "at": 8 * MINUTE, "price": 3})
    run.idle("orders", "3h")
    run.idle("payments", "3h")
    rows = {(r["order"], r["price"], r["paid"], r["_window_end_ms"]) for r in run.published("out")}
    ends = 25 * MINUTE, 10 * MINUTE
    assert rows == {("a", 1, 5, ends[0]), ("a", 3, 5, ends[0]), ("b", 2, None, ends[1])}
    assert {(p["order"], p["n"], p["paid"]) for p in run.panes("sums")} == {
        ("a", 2, 10),
        ("b", 1, None),
    }


def test_the_upper_bound_may_be_an_expression_of_the_left_row():
    pipeline, orders, payments = shop()
    upper = col("until") - col("at")
    orders.join(payments, within=("0s", upper), max_within="1h", how="left").to("out")
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 0, "price": 1, "until": 10}, {"id": "b", "at": 0})
    run.send("payments", {"order": "a", "at": 10, "paid": 1}, {"order": "a", "at": 11, "paid": 2})
    assert [row["paid"] for row in run.published("out")] == [1]
    (letter,) = run.dead_letters()
    assert letter["topic"] == "orders"


def test_a_bound_may_be_the_difference_of_two_times():
    pipeline = Pipeline("p")
    schema = {"id": str, "at": datetime, "until": datetime}
    rows = pipeline.source("r", schema=schema, event_time="at", watermark=bounded("0s")).key_by(
        "id"
    )
    rows.join(rows, within=("1ms", col("until") - col("at")), max_within="1h").to("out")
    run = InProcess(pipeline)
    times = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:03Z")
    for at in times:
        run.send("r", {"id": "a", "at": at, "until": times[1]})
    assert [(row["at"], row["at_right"]) for row in run.published("out")] == [
        ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z")
    ]


def test_a_stream_joins_itself_but_a_row_never_does():
    pipeline = Pipeline("p")
    rows = moves(pipeline).key_by("player")
    rows.join(rows, within=("0s", "1m"), on=col("score") > 0).to("pairs")
    (operator,) = pipeline.plan().operators
    assert operator.operator.streams == {"moves"}
    run = InProcess(pipeline)
    run.send("moves", *({"player": "a", "at": at, "score": at + 1} for at in (0, 1)))
    found = [(row["score"], row["score_right"]) for row in run.published("pairs")]
    assert found == [(1, 2)]


def test_results_are_a_stream_for_windows_joins_and_rows():
    """A join of a join with aggregates, in windows: all are stages of one plan."""
    pipeline, orders, payments = shop()
    paid = orders.join(payments, within=("0s", "10m"))
    totals = payments.window(tumbling("10m")).aggregate(n=count())
    both = (
        paid.select("order", "price", "paid")
        .key_by("order")
        .join(totals.key_by("order"), within="10m")
    )
    both.to("both")
    both.key_by("order").window(tumbling("1h")).aggregate(s=total("price"), n=total("n")).to("sums")
    plan = pipeline.plan()
    assert plan.services() == ("ingest", "windowing", "joins")
    text = render_text(plan)
    assert "results of order.inner-join.same-time-to-10m-after" in text
    assert "inner join within (0s, 10m)" in render_mermaid(plan)
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 0, "price": 3})
    run.send("payments", {"order": "a", "at": MINUTE, "paid": 1})
    run.send("payments", {"order": "a", "at": 2 * MINUTE, "paid": 2})
    run.idle("orders", "3h")
    run.idle("payments", "3h")
    rows = sorted((row["price"], row["paid"], row["n"]) for row in run.published("both"))
    assert rows == [(3, 1, 2), (3, 2, 2)]
    assert [(row["s"], row["n"]) for row in run.panes("sums")] == [(6, 4)]
    assert run.late("both") == run.late("sums") == []


def test_state_holds_only_the_columns_that_results_and_the_condition_need():
    pipeline, orders, payments = shop()
    joined = orders.join(payments, within="1m", on=col("price") == col("paid"))
    named = joined.filter(col("until") > 0).with_columns(u=col("until") + 1).select("order", "u")
    named.key_by("order").window(tumbling("1m")).aggregate(n=count()).to("n")
    (stage, _) = pipeline.plan().operators
    assert stage.state_signature["left columns"] == "price: Int64, until: Int64"
    assert stage.state_signature["right columns"] == "paid: Int64"
    assert stage.reads == frozenset({"order", "price", "until", "paid"})
    joined.to("all")
    whole = pipeline.plan().operators[-1]
    assert whole.state_signature["left columns"].startswith("id: String, at: Int64, price")


def test_a_filter_after_a_join_reads_columns_of_both_sides():
    pipeline, orders, payments = shop()
    joined = orders.join(payments, within="1m")
    joined.filter(col("paid") < col("price")).select("order").to("short")
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 0, "price": 3}, {"id": "b", "at": 0, "price": 3})
    run.send("payments", {"order": "a", "at": 1, "paid": 1}, {"order": "b", "at": 1, "paid": 3})
    run.idle("orders", "3h")
    run.idle("payments", "3h")
    assert [row["order"] for row in run.published("short")] == ["a"]


def test_a_plan_says_what_a_join_does():
    pipeline, orders, payments = shop()
    orders.join(
        payments,
        keep="1d",
        how="full",
        on=col("price") == col("paid"),
        allowed_lateness="5m",
        trigger=on_close(),
        max_pairs=10,
    ).to("all", format="avro")
    orders.join(payments, within="1m", trigger=on_final()).to("other")
    text = render_text(pipeline.plan())
    assert (
        'full join keep 1d, on [(col("price")) == (col("paid"))], allowed lateness 5m, on close, '
        "at most 10 pairs a row  <-"
    ) in text
    assert "inner join within (-1m, 1m)  <-" in text
    assert "joins shop.by-order.log shop.all, shop.other" in " ".join(text.split())


def test_the_schema_of_results_has_the_columns_of_both_sides():
    pipeline, orders, payments = shop()
    orders.join(payments, within="1m").to("out", format="avro")
    schemas = result_schemas(pipeline.plan())
    names = [field["name"] for field in schemas["shop.out"]["fields"]]
    assert names == [
        *("_id", "order", "id", "at", "price", "until", "at_right", "paid"),
        "_event_time_ms",
    ]
    assert {"shop.out.late-left", "shop.out.late-right"} <= schemas.keys()


def test_the_clock_of_a_join_needs_both_sources():
    pipeline, orders, payments = shop()
    orders.join(payments, within="1m", how="anti").to("unpaid")
    run = InProcess(pipeline)
    run.send("orders", {"id": "a", "at": 0, "price": 1}, {"id": "b", "at": 10 * MINUTE, "price": 1})
    assert run.published("unpaid") == []  # payments have not spoken
    run.send("payments", {"order": "z", "at": 5 * MINUTE, "paid": 1})
    assert [row["order"] for row in run.published("unpaid")] == ["a"]


def test_tidemark_try_shows_a_join_and_its_late_rows():
    pipeline, orders, payments = shop()
    orders.join(payments, within="1m").to("out")
    run = LocalRun(pipeline.plan())
    assert summary(run) is not None
