"""``join`` as users write it: what is refused, the columns and times of results, and chains."""

from datetime import datetime

import polars as pl
import polars.selectors as cs
import pytest

from tests.support.mistakes import moves, refused
from tidemark import Pipeline, bounded, col, count, every, on_close, on_final, on_update, tumbling
from tidemark import sum as total
from tidemark.commands.schemas import result_schemas
from tidemark.language.keyed import KeyedStream
from tidemark.local.run import LocalRun
from tidemark.local.view import summary
from tidemark.plan.explain import render_mermaid, render_text
from tidemark.testing import InProcess

MINUTE = 60_000


def keyed(topic="moves", pipeline=None):
    return moves(pipeline, topic).key_by("player")


def two(**options):
    """Join two streams of a pipeline with these options."""
    pipeline = Pipeline("two")
    return keyed("a", pipeline).join(keyed("b", pipeline), **{"within": "1m", **options})


def of_updates(pipeline):
    panes = keyed("a", pipeline).window(tumbling("1m"), trigger=on_update()).aggregate(n=count())
    return panes.updates().key_by("player")


def of_late(pipeline):
    return keyed("a", pipeline).window(tumbling("1m")).aggregate(n=count()).late.key_by("player")


def renamed(pipeline, **names):
    """Return a stream keyed by ``player``, with further columns."""
    return moves(pipeline, "b").with_columns(**names).key_by("player")


def keyed_as(pipeline, *key, **named):
    return moves(pipeline, "b").key_by(*key, **named)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda p: keyed("a", p).join(moves(p, "b")), "is not a keyed stream; call key_by() on it"),
        (lambda p: keyed("a", p).join("b"), "join: 'b' is not a keyed stream"),
        (
            lambda p: moves(p, "a").join(keyed("b", p)),
            "join: a stream without a key has no such method; call key_by() first",
        ),
        (
            lambda p: keyed("a", p).join(keyed("b", Pipeline("other")), within="1m"),
            "join: the streams belong to two pipelines, 'p' and 'other'",
        ),
        (
            lambda p: keyed("a", p).join(keyed_as(p, "score"), within="1m"),
            "join: the key of the left stream is player, that of the right one score; both must "
            "have the same names in the same order; key_by(player='score') renames",
        ),
        (
            lambda p: moves(p, "a").key_by("player", "score").join(keyed("b", p), within="1m"),
            "the key of the left stream is player, score, that of the right one player; both must "
            "have the same names in the same order",
        ),
        (
            lambda p: moves(p, "a").key_by("score").join(keyed_as(p, score="player"), within="1m"),
            "the stream has a column 'score' already",
        ),
        (
            lambda p: (
                moves(p, "a")
                .with_columns(who=col("score"))
                .key_by("who")
                .join(keyed_as(p, who="player"), within="1m")
            ),
            "join: key column 'who' is Int64 in the left stream and String in the right one; cast",
        ),
        (
            lambda p: moves(p, "a").key_by().join(moves(p, "b").key_by(), within="1m"),
            "join: key_by() has no column; name those that both streams have",
        ),
        (
            lambda p: of_updates(p).join(keyed("b", p), within="1m"),
            "join: rows of updates() replace each other, so only windows can read them",
        ),
        (
            lambda p: keyed("b", p).join(of_updates(p), within="1m"),
            "join: rows of updates() replace each other, so only windows can read them",
        ),
        (
            lambda p: keyed("b", p).join(of_late(p), within="1m", allowed_lateness="1h"),
            "join: rows of late are behind their watermark, and join takes no such row",
        ),
        (
            lambda p: keyed("a", p).join(renamed(p, score_right=col("score")), within="1m"),
            "both streams have a column 'score', and 'score_right' is taken too; pass another suf",
        ),
        (
            lambda p: keyed("a", p).join(renamed(p, _id=col("score")), within="1m"),
            "join: column '_id' clashes with a field of every row; rename or drop it with select()",
        ),
        (
            lambda p: keyed("a", p).join(renamed(p, retracted=col("score")), within="1m"),
            "join: column 'retracted' clashes with a field of every row",
        ),
        (
            lambda p: renamed(p, end_of_input=col("vip")).join(keyed("a", p), within="1m"),
            "join: column 'end_of_input' clashes with a field of every row",
        ),
    ],
)
def test_streams_that_do_not_fit_are_refused(build, message):
    with refused(message):
        build(Pipeline("p"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"within": None}, 'join: pass one of within="10m", within=("-10m", "1h") or keep="1d"'),
        ({"keep": "1d"}, 'join: pass one of within="10m"'),
        ({"within": 10}, "join(within): 10 has no unit; write '10ms' for milliseconds"),
        ({"within": "ten"}, "join(within): 'ten' is not a duration"),
        ({"within": "-1m"}, "join(within): '-1m' is negative; write ('-1m', '0s')"),
        (
            {"within": col("score")},
            'join(within): col("score") is an expression, which only an upper bound may be; write '
            "('0s', col(\"score\")) with max_within",
        ),
        ({"within": (col("score"), "1m")}, "which only an upper bound may be"),
        ({"within": ("1m",)}, "('1m',) has not two bounds, such as ('-10m', '1h')"),
        ({"within": ("1m", "30s")}, "the upper bound 30s is below the lower bound 1m"),
        ({"within": ("0s", "9999999d")}, "join: 9999999d is longer than"),
        ({"within": None, "keep": "0s"}, "join(keep): '0s' is not longer than 0"),
        ({"within": ("0s", col("score"))}, "has no greatest value; add one, such as max_within"),
        ({"max_within": "1h"}, "greatest value of an expression in within; leave it out"),
        (
            {"within": ("0s", col("speed")), "max_within": "1h"},
            "the bound is Float64; it must be the difference of two times, or an Int64 of milli",
        ),
        (
            {"within": ("0s", col("points")), "max_within": "1h"},
            "the stream has no column 'points'",
        ),
        (
            {"within": ("0s", pl.nth(2)), "max_within": "1h"},
            "join(within=cs.nth(2, require_all=true)): it does not name its columns",
        ),
        ({"on": pl.all_horizontal(cs.boolean())}, "it does not name its columns; name each of"),
        ({"on": pl.col("^vip_.*$")}, "it does not name its columns; name each of them"),
        ({"within": ("0s", col("score").sum()), "max_within": "1h"}, "looks at other rows"),
        ({"within": ("0s", col("_offset")), "max_within": "1h"}, "'_offset' is of a Kafka record"),
        ({"within": ("2h", col("score")), "max_within": "1h"}, "bound 1h is below the lower bou"),
        ({"how": "outer"}, "join(how): 'outer' is not one of ('inner', 'left', 'right', 'full'"),
        ({"on": col("score") + 1}, "it gives Int64, not one Boolean"),
        ({"on": "score"}, "join(on): 'score' is a str, not an expression"),
        ({"on": col("points") > 1}, "the stream has no column 'points'"),
        ({"on": col("_offset") > 1}, "column '_offset' is of a Kafka record, and rows of a join"),
        ({"on": col("score").max() > 1}, "looks at other rows"),
        (
            {"on": col("player").cast(pl.Int64) > 1},
            "it fails on some values (conversion from `str` to `i64` failed",
        ),
        (
            {"within": ("0s", col("player").cast(pl.Int64)), "max_within": "1h"},
            "make it give null for them, such as with cast(..., strict=False)",
        ),
        ({"allowed_lateness": "-1s"}, "join(allowed_lateness): '-1s' is negative"),
        ({"allowed_lateness": 5}, "join(allowed_lateness): 5 has no unit"),
        ({"trigger": on_update()}, "is not one of on_final() and on_close()"),
        ({"trigger": on_close(early=every(rows=1))}, "is not one of on_final() and on_close()"),
        ({"suffix": ""}, "join(suffix): '' is not a text to add to names"),
        ({"suffix": '"'}, "quotes, backslashes and control characters are not allowed"),
        ({"max_pairs": 0}, "join(max_pairs): 0 is not a positive integer"),
        ({"max_pairs": True}, "join(max_pairs): True is not a positive integer"),
    ],
)
def test_an_option_that_is_not_valid_is_refused(options, message):
    with refused(message):
        two(**options)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda j: j.to("a", format="xml"), "format 'xml' is not one of"),
        (lambda j: j.to("a b"), "'a b' is not a legal topic name"),
        (
            lambda j: (j.to("a.late-left"), j.to("a")),
            "to('a'): the pipeline already has topic 'two.a.late-left'",
        ),
    ],
)
def test_an_output_that_is_not_valid_is_refused(build, message):
    with refused(message):
        build(two())


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


def test_a_right_column_that_the_left_stream_has_gets_the_suffix():
    assert [*two().columns][:6] == ["player", "at", "score", "speed", "vip", "tags"]
    assert [*two().columns][6:8] == ["at_right", "score_right"]
    assert "score_of_b" in two(suffix="_of_b").columns
    assert [*two(how="semi").columns] == [*two(how="anti").columns] == [*keyed().node.columns]


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
