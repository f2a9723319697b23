"""The options of ``join`` as users write them: what is refused, and the names of columns."""

import polars as pl
import polars.selectors as cs
import pytest

from tests.support.mistakes import moves, refused
from tidemark import Pipeline, col, count, every, on_close, on_update, session, sliding, tumbling


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
        (
            {"within": None},
            'join: pass one of within="10m", within=("-10m", "1h"), keep="1d" or window=tumbling(',
        ),
        (
            {"within": ["-1m", "1h"]},
            "join(within): ['-1m', '1h'] is a list; write a tuple: ('-1m', '1h')",
        ),
        ({"keep": "1d"}, 'join: pass one of within="10m"'),
        ({"window": tumbling("1h")}, 'join: pass one of within="10m"'),
        (
            {"within": None, "window": session("score")},
            'join(window): session("score", max_gap="1d") is not one of tumbling(), hopping()',
        ),
        (
            {"within": None, "window": sliding("5m")},
            'join(window): sliding("5m") is not one of tumbling(), hopping(), calendar() and sess',
        ),
        (
            {
                "within": None,
                "window": session("5m"),
                "trigger": on_close(),
                "allowed_lateness": "1m",
            },
            "join(trigger): a join in sessions publishes a session once, when it is final; leave",
        ),
        ({"within": None, "window": tumbling("9999999d")}, "join: 9999999d is longer than"),
        (
            {"within": None, "window": tumbling("1h"), "max_within": "1h"},
            "join(max_within): it is the greatest value of an expression in within",
        ),
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


def test_a_right_column_that_the_left_stream_has_gets_the_suffix():
    assert [*two().columns][:6] == ["player", "at", "score", "speed", "vip", "tags"]
    assert [*two().columns][6:8] == ["at_right", "score_right"]
    assert "score_of_b" in two(suffix="_of_b").columns
    assert [*two(how="semi").columns] == [*two(how="anti").columns] == [*keyed().node.columns]


def test_a_column_with_the_name_of_a_bound_of_windows_is_refused():
    pipeline = Pipeline("p")
    left, right = keyed("a", pipeline), renamed(pipeline, _window_end_ms=col("score"))
    with refused("join: column '_window_end_ms' clashes with a field of every row"):
        left.join(right, window=tumbling("1h"))
    assert "_window_end_ms" in left.join(right, within="1h").columns
