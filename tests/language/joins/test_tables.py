"""``table`` and joins with tables as users write them."""

import json

import pytest

from tests.support.mistakes import moves, refused
from tidemark import Pipeline, bounded, col, count, field, on_close, tumbling
from tidemark import max as largest
from tidemark.local.run import Cuts, LocalRun
from tidemark.plan.explain import render_text
from tidemark.testing import InProcess, Message

TRADE = {"symbol": str, "at": int, "size": int}
QUOTE = {"symbol": str, "at": int, "price": int, "op": str}


def market(name="market"):
    """Return a pipeline with keyed trades and quotes."""
    pipeline = Pipeline(name)
    streams = (
        pipeline.source(topic, schema=schema, event_time="at", watermark=bounded("0s"))
        for topic, schema in (("trades", TRADE), ("quotes", QUOTE))
    )
    trades, quotes = (stream.key_by("symbol") for stream in streams)
    return pipeline, trades, quotes


def keyed(pipeline, topic):
    return moves(pipeline, topic).key_by("player")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda p: keyed(p, "a").table(keep="0s"), "table(keep)"),
        (
            lambda p: keyed(p, "a").table(keep="1d", deleted=col("score")),
            'table(deleted=col("score")): it gives Int64, not one Boolean',
        ),
        (
            lambda p: keyed(p, "a").join(keyed(p, "b").table(keep="1d"), how="full"),
            "join(how): 'full' is not one of ('inner', 'left'); versions of a table",
        ),
        (
            lambda p: keyed(p, "a").join(keyed(p, "b").table(keep="1d"), within="1m"),
            "join(within): a join with a table has no such option; leave it out",
        ),
        (
            lambda p: keyed(p, "a").join(keyed(p, "b").table(keep="1d"), window=tumbling("1m")),
            "join(window): a join with a table has no such option; leave it out",
        ),
        (
            lambda p: keyed(p, "a").join(keyed(p, "b").table(keep="1d"), wait="never"),
            "join(wait): 'never' is not one of ('event_time', 'arrival')",
        ),
        (
            lambda p: keyed(p, "a").join(keyed(p, "b"), within="1m", wait="arrival"),
            "join(wait): only a join with a table has it; call table() first",
        ),
    ],
)
def test_mistakes_are_refused(build, message):
    with refused(message):
        build(Pipeline("p"))


def test_rows_have_the_version_of_their_time():
    pipeline, trades, quotes = market()
    trades.join(quotes.table(keep="1h", deleted=col("op") == "d"), how="left").to("priced")
    run = InProcess(pipeline)
    run.send("trades", *({"symbol": "a", "at": at, "size": at} for at in (15, 25, 45, 60)))
    run.send(
        "quotes",
        {"symbol": "a", "at": 10, "price": 1, "op": "u"},
        {"symbol": "a", "at": 20, "price": 2, "op": "u"},
        {"symbol": "a", "at": 40, "price": 0, "op": "d"},
        {"symbol": "b", "at": 60, "price": 0, "op": "u"},
    )
    found = [(row["at"], row["price"], row["at_right"]) for row in run.published("priced")]
    assert found == [(15, 1, 10), (25, 2, 20), (45, None, None)]
    assert "left join with a table, keep 1h, deleted" in render_text(pipeline.plan())


def test_a_late_version_corrects():
    pipeline, trades, quotes = market()
    table = quotes.table(keep="1h")
    trades.join(table, allowed_lateness="10ms", trigger=on_close()).to("priced")
    run = InProcess(pipeline)
    run.send("trades", *({"symbol": "a", "at": at, "size": 1} for at in (35, 60)))
    run.send("quotes", *({"symbol": s, "at": t, "price": t} for s, t in (("a", 20), ("b", 40))))
    assert [row["price"] for row in run.panes("priced")] == [20]
    run.send("quotes", {"symbol": "a", "at": 25, "price": 25})
    assert [(row["price"], row["revision"]) for row in run.panes("priced")] == [(25, 2)]
    run.send("quotes", {"symbol": "a", "at": 30, "price": 30})


def test_answers_are_a_stream():
    pipeline, trades, quotes = market()
    priced = trades.join(quotes.table(keep="1h"), wait="arrival")
    priced.key_by("price").window(tumbling("10ms")).aggregate(n=count()).to("counts")
    run = InProcess(pipeline)
    run.send("quotes", {"symbol": "a", "at": 1, "price": 7})
    run.send("trades", *({"symbol": "a", "at": at, "size": 1} for at in (2, 3, 12)))
    run.send("quotes", {"symbol": "a", "at": 12, "price": 8})
    assert [(row["price"], row["n"]) for row in run.published("counts")] == [(7, 2)]


def test_a_file_of_a_table_is_read_to_its_end_before_the_rows():
    """As a compacted topic, the file is in the order of keys."""
    pipeline, trades, quotes = market()
    trades.join(quotes.table(keep="1s"), how="left").to("priced")
    quoted = [{"symbol": s, "at": at, "price": at} for s in "ab" for at in (1_000, 5_000)]
    traded = [{"symbol": s, "at": at, "size": 1} for at in (1_500, 5_500, 9_000) for s in "ab"]
    for cuts in (None, 1, 2):
        run = LocalRun(pipeline.plan(), Cuts(cuts))
        files = {"trades": traded, "quotes": quoted}
        list(run.run({name: [json.dumps(row).encode() for row in files[name]] for name in files}))
        rows = run.published["priced"].every("rows")
        assert rows.select("at", "price").rows() == [
            (at, price)
            for at, price in ((1_500, 1_000), (5_500, 5_000), (9_000, None))
            for _ in "ab"
        ]
        assert rows["end_of_input"].to_list() == [False] * 4 + [True] * 2
        assert not run.published["priced"].frames.keys() & {"late-left", "late-right"}


def test_the_plan_says_which_sources_are_read_to_their_ends():
    pipeline, trades, quotes = market()
    trades.join(quotes.table(keep="1h")).to("priced")
    text = render_text(pipeline.plan())
    assert text.count("read to its end first") == 1
    by_topic = {source.name: source.loads for source in pipeline.plan().sources}
    assert by_topic == {"trades": False, "quotes": True}


def test_the_sources_of_a_stage_before_a_table_are_not_loaded():
    """The results of a stage come in the order of its clock."""
    pipeline, trades, quotes = market()
    means = quotes.window(tumbling("10ms")).aggregate(high=largest("price"))
    trades.join(means.key_by("symbol").table(keep="1h")).to("priced")
    assert not any(source.loads for source in pipeline.plan().sources)


def test_only_the_way_in_which_a_table_answers_is_in_the_fingerprint():
    def print_of(**options):
        pipeline, trades, quotes = market()
        deleted = options.pop("deleted", None)
        table = quotes.table(keep=options.pop("keep", "1h"), deleted=deleted)
        trades.join(table, **options).to("priced")
        return pipeline.plan().fingerprint

    assert print_of() == print_of()
    others = [
        print_of(keep="2h"),
        print_of(deleted=col("op") == "d"),
        print_of(how="left"),
        print_of(wait="arrival"),
        print_of(allowed_lateness="1s"),
        print_of(allowed_lateness="1s", trigger=on_close()),
    ]
    assert len({print_of(), *others}) == 7


def test_only_columns_that_are_used_are_kept():
    pipeline, trades, quotes = market()
    priced = trades.join(quotes.table(keep="1h", deleted=col("op") == "d"))
    seen = priced.select("symbol", "price").key_by("symbol")
    seen.window(tumbling("10ms")).aggregate(n=largest("price")).to("highest")
    stage, _ = pipeline.plan().operators
    assert stage.reads == {"symbol", "price", "op", "@tombstone"}
    assert stage.service == "joins"


def test_a_row_that_a_database_deleted_ends_its_key():
    """Debezium has the deleted row in the change; the record without a value after it is blank."""
    pipeline = Pipeline("shop")
    prices = pipeline.source(
        "prices",
        schema={
            "id": int,
            "price": int,
            "deleted": field("__deleted", bool),
            "at": field("__source.ts_ms", int),
        },
        format="debezium-json",
        event_time="at",
        watermark=bounded("0s"),
    )
    orders = pipeline.source(
        "orders", schema={"id": int, "at": int}, event_time="at", watermark=bounded("0s")
    )
    table = prices.key_by("id").table(keep="1h", deleted=col("deleted"))
    orders.key_by("id").join(table, how="left").to("priced")
    run = InProcess(pipeline)

    def change(op, at, before, after):
        return {"op": op, "before": before, "after": after, "source": {"ts_ms": at}}

    run.send("prices", change("c", 10, None, {"id": 1, "price": 5}))
    run.send("prices", change("d", 20, {"id": 1, "price": 5}, None), Message(None, key='{"id":1}'))
    run.send("prices", change("c", 60, None, {"id": 2, "price": 7}))
    run.send("orders", *({"id": 1, "at": at} for at in (15, 25, 60)))
    assert [(row["at"], row["price"]) for row in run.published("priced")] == [(15, 5), (25, None)]
    assert run.dead_letters() == []
