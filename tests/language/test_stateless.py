"""Stateless operators: what each does with rows, which records die, and that cuts mean nothing."""

from itertools import pairwise
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.support.operators.stateless import SCHEMA, graph, records, rows_of, shown, source
from tidemark import (
    RECORD_TIME,
    Pipeline,
    col,
    count,
    lit,
    monotonic,
    tumbling,
)
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SUB_ROW, WATERMARK


def test_a_filter_keeps_the_rows_for_which_it_is_true_and_null_is_not_true():
    kept = source().filter(col("number") > 1)
    assert rows_of(kept, records(("a", 1), ("b", 2), ("c", None)), "key") == ["11.0 b"]


def test_with_columns_sees_the_row_as_it_was():
    swapped = source().with_columns(number=col("number") + 1, twice=col("number") * 2)
    assert rows_of(swapped, records(("a", 5)), "number", "twice") == ["10.0 6 10"]


def test_literals_are_repeated_for_every_row():
    marked = source().select("key", one=lit(1)).filter(lit(value=True))
    assert rows_of(marked, records(("a",), ("b",))) == ["10.0 a 1", "11.0 b 1"]


def test_select_replaces_all_columns_and_may_exchange_names():
    chosen = source().select(col("text").alias("key"), col("key").alias("text"))
    assert rows_of(chosen, records(("a", 1, "x"))) == ["10.0 x a"]


def test_all_means_the_value_columns_and_no_others():
    stream = source().with_columns(pl.all().is_null().name.suffix("?"))
    assert list(stream.columns)[4:] == ["key?", "number?", "text?", "items?"]
    assert rows_of(stream, records(("a", 1)), "text?") == ["10.0 True"]


def test_explode_gives_a_row_for_each_item_and_none_for_an_empty_or_null_list():
    exploded = source().explode("items")
    given_records = records(
        ("a", 1, "", [7, None]), ("b", 1, "", []), ("c", 1, "", None), ("d", 1, "", [8])
    )
    result = graph(exploded).evaluate(given_records)
    assert shown(result.streams["raw"], "key", "items") == ["10.0 a 7", "10.1 a None", "13.0 d 8"]
    assert result.passed.to_list() == [True, False, False, True]
    assert result.filtered == 2


def test_apply_gives_a_row_new_columns_by_a_python_function_of_its_dict():
    def halves(row):
        assert list(row) == ["key", "number", "text", "items"]
        return {"number": row["number"] // 2, "ratio": 1, "tags": [row["key"], None]}

    stream = source().apply(halves, columns={"number": int, "ratio": float, "tags": list[str]})
    assert rows_of(stream, records(("a", 9)), "key", "number", "ratio", "tags") == [
        "10.0 a 4 1.0 ['a', None]"
    ]


def test_flat_map_replaces_a_row_by_any_number_of_rows_with_just_its_columns():
    def words(row):
        for position, word in enumerate(row["text"].split()):
            yield {"key": word, "position": position}

    stream = source().flat_map(words, columns={"key": str, "position": int})
    given_records = records(("-", 1, "to be"), ("-", 1, ""), ("-", 1, "or"))
    assert rows_of(stream, given_records) == ["10.0 to 0", "10.1 be 1", "12.0 or 0"]


def test_split_sends_a_row_to_the_first_stream_whose_predicate_is_true():
    parts = source().split(big=col("number") > 5, odd=col("number") % 2 == 1, rest=lit(value=True))
    streams = graph(*parts.values()).evaluate(records(*[("k", n) for n in (7, 3, 4, None)])).streams
    assert [shown(stream, "number") for stream in streams.values()] == [
        ["10.0 7"],
        ["11.0 3"],
        ["12.0 4", "13.0 None"],
    ]


def test_rows_that_a_split_sends_nowhere_are_filtered():
    parts = source().split(big=col("number") > 5)
    assert graph(parts["big"]).evaluate(records(("k", 7), ("k", 3))).filtered == 1


def test_union_orders_the_rows_of_a_record_by_branch_then_by_position():
    stream = source()
    exploded = stream.explode("items").select("key", n=col("items"))
    plain = stream.select("key", n=col("number"))
    given_records = records(("a", 1, "", [8, 9]), ("b", 2, "", [7]))
    assert rows_of(plain.union(exploded, plain), given_records) == [
        "10.0 a 1",
        "10.1 a 8",
        "10.2 a 9",
        "10.3 a 1",
        "11.0 b 2",
        "11.1 b 7",
        "11.2 b 2",
    ]


def test_a_union_of_two_sources_gives_each_source_its_own_part_of_the_graph():
    pipeline = Pipeline("test")
    time: dict[str, Any] = {"event_time": RECORD_TIME, "watermark": monotonic()}
    left = pipeline.source("left", schema={"key": str, "n": int}, **time)
    right = pipeline.source("right", schema={"n": int, "key": str}, **time).filter(col("n") > 0)
    both = left.union(right).with_columns(n=col("n") + 100)
    both.key_by("key").window(tumbling("1m")).aggregate(n=count()).to("out")

    plan = pipeline.plan()
    (stream,) = plan.logs[0].streams
    assert stream.name == "left+right"
    assert stream.topics == {"left", "right"}
    given_records = records(("a", 0), ("b", 1)).select(OFFSET, "key", n=col("number"))
    of_left, of_right = (
        source.graph.evaluate(given_records).streams["left+right"] for source in plan.sources
    )
    assert shown(of_left, "key", "n") == ["10.0 a 100", "11.0 b 101"]
    assert shown(of_right, "key", "n") == ["11.0 b 101"]
    assert of_left.columns == of_right.columns


def test_metadata_columns_are_seen_only_where_they_are_named():
    stream = source().with_columns(key=col("_key"), place=col("_offset") + col("_partition"))
    assert graph(stream).metadata == ("_key", "_partition", "_offset")
    stream = source().with_columns(key=col("_key"))
    given_records = records(("a",), ("b",), _key=["x", "y"])
    assert rows_of(stream, given_records, "key") == ["10.0 x", "11.0 y"]


def test_metadata_stays_with_a_row_that_flat_map_or_union_made():
    made = source().flat_map(lambda row: [{"n": 1}, {"n": 2}], columns={"n": int})
    stream = made.union(made).with_columns(key=col("_key"))
    given_records = records(("a",), _key=["x"])
    assert rows_of(stream, given_records) == ["10.0 1 x", "10.1 2 x", "10.2 1 x", "10.3 2 x"]


def test_rows_keep_their_time_and_watermark_and_lead_with_the_row_columns():
    stream = source().explode("items")
    result = graph(stream).evaluate(records(("a", 1, "", [1, 2]), ("b", 1, "", [3])))
    frame = result.streams["raw"]
    assert frame.columns == [
        OFFSET,
        SUB_ROW,
        EVENT_TIME,
        WATERMARK,
        "key",
        "number",
        "text",
        "items",
    ]
    assert frame[EVENT_TIME].to_list() == [1000, 1000, 1100]
    assert frame[WATERMARK].to_list() == [999, 999, 1099]
    assert frame.schema[SUB_ROW] == pl.Int32


def test_no_records_give_empty_frames_with_all_columns():
    stream = source().apply(lambda row: {"x": 1.5}, columns={"x": float}).explode("items")
    result = graph(stream).evaluate(records())
    assert result.streams["raw"].height == 0
    assert result.streams["raw"].schema["x"] == pl.Float64
    assert result.dead.is_empty()


def everything():
    """A graph with every operator, on which some records die in each of them."""
    stream = source()
    parsed = stream.with_columns(n=col("text").cast(pl.Int64), raised=col("number") + 1)
    repeated = stream.filter(col("number") < 9).flat_map(
        lambda row: [{**row, "n": i, "raised": 12 // row["number"]} for i in range(row["number"])],
        columns={**SCHEMA, "n": int, "raised": int},
    )
    both = parsed.union(repeated).explode("items")
    parts = stream.split(even=col("number") % 2 == 0, big=col("number") > 5)
    reduced = parts["even"].apply(lambda row: {"q": 1 / (row["number"] - 4)}, columns={"q": float})
    return graph(both, reduced, parts["big"].select("key", lit(1).alias("one")))


GRAPH = everything()

RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(-1, 9),
        st.sampled_from(["1", "22", "x", None]),
        st.none() | st.lists(st.integers(0, 3), max_size=3),
    ),
    max_size=30,
)


@given(RECORDS, st.lists(st.integers(0, 30), max_size=5))
def test_cutting_the_records_changes_nothing_and_every_record_is_accounted_for(rows, cuts):
    whole = GRAPH.evaluate(records(*rows))
    edges = [0, *sorted(cut for cut in cuts if cut <= len(rows)), len(rows)]
    frame = records(*rows)
    parts = [(start, GRAPH.evaluate(frame[start:end])) for start, end in pairwise(edges)]

    for name, stream in whole.streams.items():
        assert pl.concat([part.streams[name] for _, part in parts]).equals(stream)
    assert pl.concat(
        [part.dead.with_columns(record=col("record") + start) for start, part in parts]
    ).equals(whole.dead)
    assert pl.concat([part.passed for _, part in parts]).equals(whole.passed)
    passed = int(whole.passed.sum())
    assert passed + whole.filtered + whole.dead.height == len(rows)
    assert not set(whole.dead["record"]) & set(whole.passed.arg_true())
