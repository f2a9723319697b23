"""Pipelines as users write them: what is exported, and that every mistake is named at once."""

from dataclasses import FrozenInstanceError
from datetime import datetime, timedelta
from types import ModuleType

import polars as pl
import pytest

import tidemark
from tests.support.mistakes import moves, refused
from tidemark import (
    INGEST_TIME,
    RECORD_TIME,
    Pipeline,
    bounded,
    col,
    count,
    from_expression,
    lit,
    monotonic,
    punctuated,
    tumbling,
    when,
)


def test_what_is_exported_is_what_is_there():
    public = {
        name
        for name, value in vars(tidemark).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert set(tidemark.__all__) == public


def test_a_stream_is_a_value_that_operators_leave_alone():
    stream = moves()
    before = stream.columns
    stream.filter(col("vip"))
    stream.with_columns(extra=lit(1))
    assert stream.columns == before
    with pytest.raises(FrozenInstanceError):
        stream.node = None


def test_columns_and_their_types_follow_the_operators():
    stream = (
        moves()
        .with_columns(double=col("score") * 2.0)
        .explode("tags")
        .select("player", "tags", "double", day=col("at").cast(pl.Datetime("ms")).dt.date())
    )
    assert stream.columns == {
        "player": pl.String,
        "tags": pl.String,
        "double": pl.Float64,
        "day": pl.Date,
    }


def test_a_pipeline_shows_its_name_and_outputs():
    pipeline = Pipeline("game")
    assert repr(pipeline) == "Pipeline('game', outputs: none)"
    moves(pipeline).key_by("player").window(tumbling("1m")).aggregate(n=count()).to("out")
    assert repr(pipeline) == "Pipeline('game', outputs: out)"


# Pipelines and sources


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", ".", "..", 5, None, "x" * 250])
def test_a_name_that_is_no_topic_name_is_refused(name):
    with refused("Pipeline(name)"):
        Pipeline(name)
    with refused("source(topic)"):
        moves(topic=name)


def test_the_topics_of_the_whole_pipeline_have_legal_names():
    Pipeline("g" * 228)
    with refused("g.dead-letters.retried' is longer than 249 characters"):
        Pipeline("g" * 229)


@pytest.mark.parametrize("partitions", [0, -1, 129, 1.5, True, "4"])
def test_partitions_that_are_no_number_of_partitions_are_refused(partitions):
    with refused(f"Pipeline(partitions): {partitions!r} is not an int from 1 to 128"):
        Pipeline("game", partitions=partitions)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, "source('moves') schema: {} is not a dict of column names and types"),
        (
            {"a": dict},
            "column 'a': dict is not a type; use str, int, float, bool, bytes, datetime",
        ),
        ({"a": "str"}, "column 'a': 'str' is not a type"),
        ({"a": list[dict]}, "column 'a'[]: dict is not a type"),  # type: ignore[type-arg]  # the mistake under test
        ({"a": list}, "column 'a': list is not a type"),
        ({"": str}, "'' is not a column name"),
        ({"*": str}, "column '*': '*' and '^...$' mean several columns to polars"),
        ({"^.*$": str}, "column '^.*$': '*' and '^...$' mean several columns to polars"),
        (
            {'"q"': str},
            "column '\"q\"': '*' and '^...$' mean several columns to polars; quotes",
        ),
        ({"@offset": int}, "column '@offset': names that begin with '@' are reserved"),
        ({"_key": str}, "column '_key' is a metadata column"),
    ],
)
def test_a_schema_that_means_nothing_is_refused(schema, message):
    with refused(message):
        moves(schema=schema)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"event_time": "att"}, "event_time: the stream has no column 'att'; did you mean 'at'?"),
        ({"event_time": None}, "source('moves'): event_time: None is not a column name"),
        ({"event_time": "player"}, "'player' is String, but unit 'ms' needs Int64"),
        ({"event_time": "speed"}, "'speed' is Float64, but unit 'ms' needs Int64"),
        ({"unit": "iso8601"}, "'at' is Int64, but unit 'iso8601' needs String"),
        ({"unit": "min"}, "unit 'min' is not one of s, ms, us, ns, iso8601"),
        ({"unit": []}, "source('moves'): no unit"),
        ({"unit": ["ms", 5]}, "source('moves'): unit 5 is not one of s, ms, us, ns, iso8601"),
        (
            {"unit": ["s", "ms"]},
            "'s' goes with no other; numbers in several units are of unit 'epoch'",
        ),
        ({"unit": "%d.%m."}, "source('moves'): unit '%d.%m.': no full date; write %Y with"),
        ({"event_time": "player"}, "unit 'auto' reads texts in most forms"),
        ({"event_time": "speed"}, "unit 'auto' reads floats of seconds, ms and us"),
        ({"zone": "Europe/Berlin"}, "zone 'Europe/Berlin' of event time 'at': a zone needs unit"),
        (
            {"event_time": "player", "unit": "iso8601", "zone": "Mars/Olympus"},
            "zone 'Mars/Olympus' is not a time zone such as",
        ),
        (
            {"event_time": "player", "unit": "iso8601", "zone": ""},
            "zone '' is not a time zone such as",
        ),
        ({"event_time": RECORD_TIME, "unit": "s"}, "unit 's' and zone None apply to a column's"),
        ({"watermark": "2s"}, "watermark '2s' is not a watermark; use bounded('2s'), monotonic()"),
        ({"idle_after": "0s"}, "source('moves'): idle_after: '0s' is not longer than 0"),
        ({"idle_after": "soon"}, "source('moves'): idle_after: 'soon' is not a duration"),
        (
            {"watermark": punctuated(when=col("at"))},
            'watermark punctuated(): col("at") gives Int64, not Boolean',
        ),
        (
            {"watermark": punctuated(when=col("at") == col("at").max())},
            "looks at other rows",
        ),
        ({"watermark": punctuated(when=True)}, "True is a bool, not an expression"),  # type: ignore[arg-type]  # the mistake under test
        (
            {"watermark": from_expression(col("speed"))},
            "gives Float64, not Int64 (ms) or a Datetime with a zone",
        ),
        ({"watermark": from_expression(col("att"))}, "the stream has no column 'att'"),
        (
            {"event_time": col("player").str.to_datetime("%F %T", time_unit="ms")},
            "gives Datetime(time_unit='ms', time_zone=None), not Int64 (ms) or a Datetime",
        ),
        ({"event_time": col("at") - col("at").min()}, "event_time: "),
        ({"event_time": pl.sum_horizontal(pl.all())}, "does not name its columns"),
        ({"event_time": col("at"), "unit": "s"}, "unit 's' and zone None apply to a column's"),
        ({"min_time": "2000-01-01"}, "min_time: '2000-01-01' is not an instant such as"),
        ({"min_time": datetime(2000, 1, 1)}, "is not an instant such as"),  # noqa: DTZ001
        ({"when_silent": "stop"}, "when_silent 'stop' is not 'advance' or 'wait'"),
        ({"max_drift": "0s"}, "source('moves'): max_drift: '0s' is not longer than 0"),
        ({"max_future": "-1s"}, "source('moves'): max_future: '-1s' is not longer than 0"),
        ({"idle_after": 10}, "idle_after: 10 has no unit; write '10ms' for milliseconds or '10s'"),
        (
            {"schema": {"at": int, "details.price": float}},  # A8
            "column 'details.price' reads like the path of a nested field; write {'details_price': "
            "field('details.price', ...)}, or field(['details.price'], ...) if the member has this",
        ),
        (
            {"schema": {"at": int, "items[0]": float}},
            "explode('items') or col('items').list.get(0)",
        ),
    ],
)
def test_a_source_that_means_nothing_is_refused(options, message):
    with refused(message):
        moves(**options)


def test_a_watermark_that_runs_ahead_is_refused():
    with refused("the delay is negative"):
        bounded("-1s")


def test_sources_take_time_from_a_column_the_record_or_ingest():
    pipeline = Pipeline("game")
    moves(pipeline, "a", event_time=RECORD_TIME, watermark=monotonic())
    moves(pipeline, "b", event_time=INGEST_TIME, idle_after=timedelta(seconds=1))
    moves(pipeline, "c", event_time="player", unit="iso8601", zone="Europe/Berlin")
    moves(pipeline, "i", event_time="player", unit=["rfc2822", "%d.%m.%Y %T"], zone="UTC")
    moves(pipeline, "d", unit="ns", max_future="1h", min_time="2000-01-01T00:00:00Z")
    moves(pipeline, "e", event_time="speed", unit="s", max_drift="5m", when_silent="wait")
    moves(pipeline, "f", event_time=col("at") + col("_partition"))
    moves(pipeline, "g", watermark=punctuated(when=col("vip")))
    moves(pipeline, "h", watermark=from_expression(col("at") - 5))


def test_a_topic_is_read_by_one_source():
    pipeline = Pipeline("game")
    moves(pipeline)
    with refused("source('moves'): the pipeline already has this topic"):
        moves(pipeline)


# Stateless operators


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda s: s.filter(col("scor") > 1),
            "no column 'scor'; did you mean 'score'? (columns: player, at, score",
        ),
        (lambda s: s.filter(col("score")), 'filter(col("score")): the predicate gives Int64, not'),
        (lambda s: s.filter(col("score", "at") > 1), "gives Boolean, Boolean, not one Boolean"),
        (lambda s: s.filter("vip"), "filter: 'vip' is a str, not an expression such as"),
        (
            lambda s: s.select("at", who="player"),
            "col('player') is a column, lit('player') a value",
        ),
        (
            lambda s: s.with_columns(x=1.5),
            "not an expression such as col('a') > 1; lit(1.5) is a val",
        ),
        (lambda s: s.filter(col("score") > col("score").mean()), "looks at other rows"),
        (lambda s: s.filter(col("player") + 1 > 2), "arithmetic on dtypes"),
        (lambda s: s.filter(col("_kye").is_null()), "no column '_kye'"),
        (lambda s: s.with_columns(), "with_columns: no expressions"),
        (lambda s: s.with_columns(x=1), "with_columns(x): 1 is a int, not an expression"),
        (lambda s: s.with_columns(x=col("y")), "with_columns: the stream has no column 'y'"),
        (lambda s: s.with_columns(_key=lit(1)), "column '_key' is a metadata column"),
        (lambda s: s.with_columns(col("_key")), "column '_key' is a metadata column"),
        (lambda s: s.with_columns(**{"@x": lit(1)}), "names that begin with '@' are reserved"),
        (lambda s: s.with_columns(lit(1).alias("x"), x=lit(2)), "with_columns: "),
        (lambda s: s.with_columns(x=lit(None)), "column 'x' would have type Null; cast it"),
        (
            lambda s: s.with_columns(x=col("player").cast(pl.Categorical)),
            "column 'x' would have type Categorical; cast it to a plain type",
        ),
        (
            lambda s: s.with_columns(x=col("tags").list.eval(pl.element().cast(pl.Categorical))),
            "column 'x' would have type List(Categorical); cast it to a plain type",
        ),
        (
            lambda s: s.with_columns(x=col("score").cast(pl.Int128)),
            "column 'x' would have type Int128; cast it to a plain type such as pl.Int64 or",
        ),
        (lambda s: s.with_columns(x=col("score").cum_sum()), "looks at other rows"),
        (lambda s: s.select(), "select: no expressions"),
        (lambda s: s.select("playr"), "select: the stream has no column 'playr'; did you mean"),
        (lambda s: s.select(5), "select: 5 is a int, not an expression"),
        (lambda s: s.select(pl.len()), "looks at other rows"),
        (lambda s: s.apply("f", columns={"x": int}), "apply(f): 'f' is not a function"),
        (
            lambda s: s.apply(len, columns={}),
            "apply(len) columns: {} is not a dict of column names",
        ),
        (lambda s: s.apply(len, columns={"x": set}), "column 'x': set is not a type"),
        (lambda s: s.flat_map(None, columns={"x": int}), "flat_map(None): None is not a function"),
        (lambda s: s.flat_map(len, columns={"_key": str}), "column '_key' is a metadata column"),
        (lambda s: s.explode("score"), "explode: column 'score' is Int64, not a list"),
        (
            lambda s: s.explode("tag"),
            "explode: the stream has no column 'tag'; did you mean 'tags'",
        ),
        (lambda s: s.split(), "split: no predicates"),
        (lambda s: s.split(big=col("score")), 'split big(col("score")): the predicate gives Int64'),
        (lambda s: s.union(), "union: no other stream"),
        (lambda s: s.union("moves"), "union: 'moves' is a str, not a stream"),
        (lambda s: s.union(s.key_by("at")), "union: KeyedStream(key: at) is a KeyedStream, not a"),
        (lambda s: s.filter(s), "filter: Stream(player, at, score, speed, vip, tags) is a Stream"),
        (
            lambda s: s.union(s.with_columns(score=col("score") * 1.5)),
            "union: column 'score' is Int64 in one stream and Float64 in another",
        ),
        (
            lambda s: s.union(s.with_columns(extra=lit(1))),
            "union: column 'extra' is missing in one stream and Int32 in another",
        ),
        (lambda s: s.union(moves(Pipeline("other"))), "two pipelines, 'game' and 'other'"),
        (lambda s: s.key_by("plyer"), "key_by(plyer): the stream has no column 'plyer'"),
        (lambda s: s.key_by("at", "at"), "key_by(at, at): a column is named twice"),
        (lambda s: s.key_by(col("at")), "is not a column name"),
        (
            lambda s: s.key_by("player", "speed"),
            "key_by(player, speed): column 'speed' is Float64, which is not a type for keys (0.0",
        ),
        (lambda s: s.key_by("tags"), "column 'tags' is List(String), which is not a type for keys"),
        (
            lambda s: s.with_columns(end=col("at")).key_by("end"),
            "key_by(end): column 'end' clashes with a field of every pane; key_by(key_end='end')",
        ),
    ],
)
def test_a_mistake_in_an_operator_is_named_where_it_is_made(build, message):
    stream = moves()
    with refused(message):
        build(stream)


def test_a_conditional_expression_is_built_with_when():
    stream = moves().with_columns(level=when(col("score") > 9).then(lit("high")).otherwise(lit("")))
    assert stream.columns["level"] == pl.String
