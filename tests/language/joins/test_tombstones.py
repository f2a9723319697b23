"""Records without a value delete keys of a table: docs/semantics.md, "Tombstones"."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.support.mistakes import refused
from tidemark import Pipeline, bounded, col, count, field, tumbling
from tidemark.plan.explain import render_text
from tidemark.testing import InProcess, Message

QUOTE = {"symbol": str, "venue": str, "at": int, "price": int}
END = 10_000_000


def quotes_of(pipeline, schema=QUOTE, **options):
    return pipeline.source(
        "quotes", schema=schema, event_time="at", watermark=bounded("1h"), **options
    )


def trades_of(pipeline):
    schema = {"symbol": str, "venue": str, "at": int}
    return pipeline.source("trades", schema=schema, event_time="at", watermark=bounded("1h"))


def deleted(key, at=None):
    return Message(None, key=key, timestamp_ms=at)


def priced(run):
    """Return the price of each trade, once the clock has passed all."""
    for topic in ("trades", "quotes"):
        run.send(topic, {"symbol": "end", "venue": "end", "at": END})
    return {(row["at"], row["symbol"]): row["price"] for row in run.published("priced")}


@st.composite
def records(draw):
    """Return quotes, tombstones and trades: (kind, symbol, time), in the order of the topics."""
    each = st.tuples(
        st.sampled_from(("quote", "quote", "deleted", "trade")),
        st.sampled_from("abc"),
        st.integers(0, 40),
    )
    return draw(st.lists(each, max_size=25))


def expected(sent):
    """Return the price of each trade by looking at all versions."""
    versions, largest = [], 0
    for offset, (kind, symbol, at) in enumerate(each for each in sent if each[0] != "trade"):
        at = max(at, largest) if kind == "deleted" else at
        versions.append((at, offset, symbol, None if kind == "deleted" else offset))
        largest = max(largest, at) if kind == "quote" else largest
    found = {}
    for kind, symbol, at in sent:
        valid = [each for each in versions if each[0] <= at and each[2] == symbol]
        if kind == "trade":
            found[at, symbol] = max(valid)[3] if valid else None
    return found


@fewer(3)
@given(sent=records(), partitions=st.sampled_from((1, 2, 4)), cut=st.integers(0, 25))
def test_answers_are_those_of_all_versions_and_tombstones(sent, partitions, cut):
    pipeline = Pipeline("p", partitions=partitions)
    table = quotes_of(pipeline).key_by("symbol").table(keep="1h")
    trades_of(pipeline).key_by("symbol").join(table, how="left").to("priced")
    quoted = [each for each in sent if each[0] != "trade"]
    quotes = [
        deleted(symbol if number % 2 else json.dumps({"symbol": symbol}), at)
        if kind == "deleted"
        else {"symbol": symbol, "at": at, "price": number}
        for number, (kind, symbol, at) in enumerate(quoted)
    ]
    run = InProcess(pipeline)
    run.send("quotes", *quotes[:cut])
    run.send("trades", *({"symbol": s, "at": at} for kind, s, at in sent if kind == "trade"))
    run.send("quotes", *quotes[cut:])
    assert priced(run) == expected(sent)
    assert run.dead_letters() == []


def test_a_tombstone_passes_the_filters_before_the_table():
    pipeline = Pipeline("p")
    kept = quotes_of(pipeline).filter(col("price") > 1).with_columns(price=col("price") * 2)
    table = kept.key_by(name="symbol").table(keep="1h")
    trades_of(pipeline).key_by(name="symbol").join(table, how="left").to("priced")
    run = InProcess(pipeline)
    run.send("quotes", {"symbol": "a", "at": 1, "price": 3}, deleted("a", 5))
    run.send("trades", *({"symbol": "a", "at": at} for at in (4, 6)))
    assert priced(run) == {(4, "a"): 6, (6, "a"): None}


def test_the_timeline_of_tombstones():
    """The timeline in docs/semantics.md."""
    pipeline = Pipeline("p")
    table = quotes_of(pipeline).key_by("symbol").table(keep="1h")
    trades_of(pipeline).key_by("symbol").join(table, how="left").to("priced")
    run = InProcess(pipeline)
    quotes = ({"symbol": "a", "at": at, "price": at} for at in (10, 40))
    run.send("quotes", next(quotes), deleted("a", 30), next(quotes), deleted("a", 35))
    run.send("trades", *({"symbol": "a", "at": at} for at in (20, 35, 39, 50)))
    assert list(priced(run).values()) == [10, None, None, None]


def test_a_stream_of_the_same_source_has_no_tombstones():
    pipeline = Pipeline("p")
    quotes = quotes_of(pipeline).key_by("symbol")
    quotes.window(tumbling("1s")).aggregate(n=count()).to("counts")
    trades_of(pipeline).key_by("symbol").join(quotes.table(keep="1h"), how="left").to("priced")
    assert "tombstones" in render_text(pipeline.plan())
    run = InProcess(pipeline)
    run.send("quotes", {"symbol": "a", "at": 1, "price": 3}, deleted("a", 5), deleted(None))
    priced(run)
    assert [row["n"] for row in run.published("counts")] == [1]
    (letter,) = run.dead_letters()
    assert letter["stage"] == "tombstone"
    assert letter["reason"].startswith("Kafka key: none, so the record names no key of the table;")


def test_without_tombstones_such_records_are_left_out():
    pipeline = Pipeline("p")
    table = quotes_of(pipeline).key_by("symbol").table(keep="1h", tombstones=False)
    trades_of(pipeline).key_by("symbol").join(table, how="left").to("priced")
    run = InProcess(pipeline)
    run.send("quotes", {"symbol": "a", "at": 1, "price": 3}, deleted("a", 5), deleted(None))
    run.send("trades", {"symbol": "a", "at": 6})
    assert priced(run) == {(6, "a"): 3}
    assert run.dead_letters() == []


def test_the_key_may_be_only_in_the_kafka_key():
    pipeline = Pipeline("p")
    quotes = quotes_of(pipeline, {"at": int, "price": int}).with_columns(symbol=col("_key"))
    trades = trades_of(pipeline).key_by("symbol")
    trades.join(quotes.key_by("symbol").table(keep="1h"), how="left").to("priced")
    run = InProcess(pipeline)
    run.send("quotes", Message({"at": 1, "price": 3}, key='{"a":1}'), deleted('{"a":1}', 5))
    run.send("trades", *({"symbol": '{"a":1}', "at": at} for at in (2, 6)))
    assert list(priced(run).values()) == [3, None]


def test_debezium_deletes_by_the_change_and_by_the_tombstone_after_it():
    schema = {**QUOTE, "deleted": field("__deleted", bool)}
    pipeline = Pipeline("p")
    quotes = quotes_of(pipeline, schema, format="debezium-json").key_by("symbol")
    table = quotes.table(keep="1h", deleted=col("deleted"))
    trades_of(pipeline).key_by("symbol").join(table, how="left").to("priced")
    run = InProcess(pipeline)
    row = {"symbol": "a", "venue": "x", "at": 1, "price": 3}
    gone = {**row, "at": 4}
    key = {"schema": {}, "payload": {"symbol": "a"}}
    run.send(
        "quotes",
        {"op": "c", "before": None, "after": row},
        {"op": "c", "before": None, "after": {**row, "symbol": "b"}},
        {"op": "d", "before": gone, "after": None},
        deleted(json.dumps(key), 5),
        deleted(json.dumps({"symbol": "b"}), 6),
    )
    run.send("trades", *({"symbol": s, "at": at} for at in (3, 5, 7) for s in "ab"))
    for topic, end in (
        ("trades", {"symbol": "end", "at": END}),
        ("quotes", {"op": "c", "after": {**row, "symbol": "end", "at": END}}),
    ):
        run.send(topic, end)
    found = {(each["at"], each["symbol"]): each["price"] for each in run.published("priced")}
    assert (found[3, "a"], found[5, "a"], found[7, "a"]) == (3, None, None)
    assert (found[3, "b"], found[5, "b"], found[7, "b"]) == (3, 3, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda quotes: quotes.with_columns(k=col("symbol") + "x").key_by("k"),
            "table(tombstones): key column 'k' is not one column of a source",
        ),
        (
            lambda quotes: quotes.flat_map(lambda row: [row], {"symbol": str}).key_by("symbol"),
            "table(tombstones): key column 'symbol' is not one column of a source",
        ),
    ],
)
def test_a_key_that_the_kafka_key_cannot_give_is_refused(make, message):
    keyed = make(quotes_of(Pipeline("p")))
    with refused(f"{message}, so the Kafka key of a record without a value does not give it; pass"):
        keyed.table(keep="1h")
    keyed.table(keep="1h", tombstones=False)


def test_tables_by_two_keys_of_one_topic_are_refused():
    pipeline = Pipeline("p")
    quotes, trades = quotes_of(pipeline), trades_of(pipeline)
    for key in ("symbol", "venue"):
        table = quotes.key_by(key).table(keep="1h")
        trades.key_by(key).join(table, how="left").to(key)
    with refused("source('quotes'): tables by symbol and venue, and the Kafka key"):
        pipeline.plan()


def test_debezium_without_deleted_is_refused():
    quotes = quotes_of(Pipeline("p"), format="debezium-json").key_by("symbol")
    with refused("table(deleted): a change by which Debezium deletes a row would be a version"):
        quotes.table(keep="1h")
