"""``first`` and ``aggregate`` of a join: one row for each left row, and what is refused."""

import polars as pl
import pytest

from tests.support.mistakes import moves, refused
from tidemark import Pipeline, bounded, col, collect, count, custom, on_close, tumbling
from tidemark import sum as total
from tidemark.commands.schemas import result_schemas
from tidemark.language.joins.joined_stream import JoinedStream
from tidemark.plan.explain import render_text
from tidemark.testing import InProcess

MINUTE = 60_000


def shop(**options):
    """Join orders with the payments in the ten minutes after them."""
    pipeline = Pipeline("shop", partitions=2)
    orders, payments = (
        pipeline.source(topic, schema=schema, event_time="at", watermark=bounded("5m"))
        for topic, schema in (
            ("orders", {"order": str, "at": int, "price": int}),
            ("payments", {"order": str, "at": int, "paid": int, "by": str}),
        )
    )
    options = {"within": ("0s", "10m"), "how": "left", **options}
    return pipeline, orders.key_by("order").join(payments.key_by("order"), **options)


def pay(pipeline, **options):
    run = InProcess(pipeline, **options)
    run.send("orders", {"order": "a", "at": 0, "price": 9}, {"order": "b", "at": 0, "price": 4})
    for at, paid, by in ((3, 5, "card"), (1, 7, "cash"), (2, None, "card")):
        run.send("payments", {"order": "a", "at": at * MINUTE, "paid": paid, "by": by})
    run.idle("orders", "3h")
    run.idle("payments", "3h")
    return run


def test_each_left_row_has_aggregates_of_its_partners():
    pipeline, paid = shop(allowed_lateness="5m")
    sums = paid.aggregate(
        n=count(),
        cards=count(where=col("by") == "card"),
        paid=total("paid"),
        all=collect("paid"),
        left=total("price"),
    )
    sums.to("sums", format="avro")
    assert [*sums.columns] == ["order", "at", "price", "n", "cards", "paid", "all", "left"]
    rows = {row["order"]: row for row in pay(pipeline).published("sums")}
    assert {name: rows["a"][name] for name in ("n", "cards", "paid", "all", "left")} == {
        "n": 3,
        "cards": 2,
        "paid": 12,
        "all": [7, 5],
        "left": 27,
    }
    assert (rows["b"]["n"], rows["b"]["paid"], rows["b"]["all"]) == (0, None, [])
    assert {row["_event_time_ms"] for row in rows.values()} == {10 * MINUTE}
    fields = [field["name"] for field in result_schemas(pipeline.plan())["shop.sums"]["fields"]]
    assert fields == ["_id", *sums.columns, "_event_time_ms"]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (None, ("cash", 7)),
        ("paid", ("card", 5)),
        (-col("paid"), ("cash", 7)),
        (col("paid") - col("price"), ("card", 5)),
        (col("by").str.len_chars() + col("paid").is_null(), ("cash", 7)),
    ],
)
def test_each_left_row_has_the_first_of_its_partners(by, expected):
    pipeline, paid = shop()
    paid.first(by).to("first")
    rows = {row["order"]: (row["by"], row["paid"]) for row in pay(pipeline).published("first")}
    assert rows == {"a": expected, "b": (None, None)}


def test_an_inner_join_leaves_out_rows_without_a_partner():
    pipeline, paid = shop(how="inner")
    paid.aggregate(n=count()).to("counts")
    paid.first().to("first")
    run = pay(pipeline)
    assert [row["order"] for row in run.published("counts")] == ["a"]
    assert [row["order"] for row in run.published("first")] == ["a"]


def inverse(value):
    return int(f"{100 // (value - 180_005)}")  # with a text, so that polars advises nothing


def test_a_by_that_fails_on_a_row_is_null_there():
    pipeline, paid = shop()
    fails = (col("paid") + col("at_right")).map_elements(inverse, return_dtype=pl.Int64())
    paid.first(fails).to("first")
    rows = {row["order"]: row["paid"] for row in pay(pipeline).published("first")}
    assert rows == {"a": 7, "b": None}


def test_rows_of_aggregates_are_a_stream_without_late_rows():
    """The stage keeps only the columns that its results need."""
    pipeline, paid = shop(allowed_lateness="5m")
    counts = paid.aggregate(n=count(where=col("by") == "card"))
    counts.key_by("order").window(tumbling("1h")).aggregate(n=total("n")).to("per-hour")
    text = render_text(pipeline.plan())
    assert (
        "left join within (0s, 10m), allowed lateness 5m, for each left row n=count(where" in text
    )
    run = pay(pipeline)
    assert {(p["order"], p["n"]) for p in run.panes("per-hour")} == {("a", 2), ("b", 0)}
    assert not run.late("per-hour")
    (stage,) = (each for each in pipeline.plan().operators if each.service == "joins")
    assert {"by", "at"} <= stage.reads  # a log has all columns of its streams
    assert "paid" not in stage.reads


def test_the_settings_are_part_of_what_state_is_compared_by():
    texts = set()
    for build in (
        lambda paid: paid,
        lambda paid: paid.first(),
        lambda paid: paid.first("paid"),
        lambda paid: paid.aggregate(n=count()),
        lambda paid: paid.aggregate(n=count("paid")),
    ):
        pipeline, paid = shop()
        build(paid).to("out")
        (operator,) = pipeline.plan().operators
        texts.add(operator.state_signature["join"])
    assert len(texts) == 5


class Total:
    """A sum, as a user may write it."""

    def init(self):
        return 0

    def add(self, state, row):
        return state + (row["paid"] or 0)

    def merge(self, one, other):
        return one + other

    def result(self, state):
        return state


@pytest.mark.parametrize(
    ("options", "build", "message"),
    [
        ({}, lambda s: s.aggregate(), "aggregate(): no aggregates"),
        ({}, lambda s: s.aggregate(n=1), "aggregate(n): 1 is not an aggregate"),
        ({}, lambda s: s.aggregate(n=total("pay")), "no column 'pay'"),
        ({}, lambda s: s.aggregate(price=count()), "aggregate(price): the left stream has a col"),
        ({}, lambda s: s.aggregate(order=count()), "clashes with key column 'order'"),
        ({}, lambda s: s.aggregate(n=count()).first(), "first: the join gives one row for each"),
        ({}, lambda s: s.first().aggregate(n=count()), "aggregate: the join gives one row for ea"),
        ({}, lambda s: s.first("pay"), "first(by): the stream has no column 'pay'"),
        ({}, lambda s: s.first(7), "first(by)"),
        ({}, lambda s: s.first(col("paid").sum()), "first(by="),
        ({}, lambda s: s.first(col("^pa.*$")), "it does not name its columns"),
        ({"how": "full"}, lambda s: s.first(), "a join with how='inner' or 'left', and this one"),
        ({"how": "semi"}, lambda s: s.aggregate(n=count()), "and this one has 'semi'"),
        (
            {"trigger": on_close(), "allowed_lateness": "1m"},
            lambda s: s.first(),
            "first: a left row is published once, when no partner can come; leave out trigger",
        ),
        (
            {"within": None, "window": tumbling("1h")},
            lambda s: s.first(),
            "first: a join in windows has no such method; aggregate its rows, with key_by(), "
            "window() and aggregate(), or join rows by their distance, with within=",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options, build, message):
    _, paid = shop(**options)
    assert isinstance(paid, JoinedStream)
    with refused(message):
        build(paid)


def test_aggregates_with_code_of_a_user_are_refused():
    _, paid = shop()
    with refused("aggregate(m): an aggregate of your own needs windows; use collect() here"):
        paid.aggregate(m=custom(Total(), "paid", int))


def test_a_join_with_a_table_has_one_row_for_each_left_row_already():
    stream = moves().key_by("player")
    joined = stream.join(stream.table(keep="1d"))
    with refused("first: a join with a table gives one row for each left row already"):
        joined.first()
