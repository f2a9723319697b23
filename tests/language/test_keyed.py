"""Windows and aggregates as users write them: every mistake is named at once."""

import builtins

import polars as pl
import pytest

from tests.support.mistakes import moves, refused
from tidemark import (
    RECORD_TIME,
    Pipeline,
    bounded,
    calendar,
    col,
    count,
    every,
    hopping,
    mean,
    on_close,
    on_final,
    session,
    sliding,
    sum,  # noqa: A004
    tumbling,
)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tumbling(0), "tumbling(size): 0 is not longer than 0"),
        (lambda: tumbling("-1m"), "tumbling(size): '-1m' is not longer than 0"),
        (lambda: tumbling("a minute"), "tumbling(size): 'a minute' is not a duration"),
        (lambda: tumbling("1m", offset="1m"), "tumbling('1m'): offset '1m' is not shorter than"),
        (lambda: hopping("1m", "0s"), "hopping(slide): '0s' is not longer than 0"),
        (lambda: hopping("1m", "2m"), "hopping(slide): '2m' is longer than the size '1m'"),
        (lambda: hopping("1m", "10s", offset="10s"), "offset '10s' is not shorter than the slide"),
        (lambda: session("0s"), "session(gap): '0s' is not longer than 0"),
        (lambda: sliding("0s"), "sliding(size): '0s' is not longer than 0"),
        (lambda: calendar("year", "UTC"), "calendar: 'year' is not one of day, week, month"),
        (lambda: calendar("day", "Berlin"), "calendar: zone 'Berlin' is not a time zone such as"),
    ],
)
def test_a_window_that_means_nothing_is_refused(build, message):
    with refused(message):
        build()


MINUTE = tumbling("1m")
UNKNOWN = "no column 'scores'; did you mean 'score'? (columns: player, at, score, speed, vip, tags)"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda k: k.window("1m"), "window: '1m' is not a window; use tumbling(), hopping(), cal"),
        (lambda k: k.window(MINUTE, allowed_lateness="-1s"), "window(allowed_lateness): '-1s' is"),
        (lambda k: k.window(MINUTE, allowed_lateness="x"), "window(allowed_lateness): 'x' is no"),
        (
            lambda k: k.window(MINUTE, trigger=on_final),
            "window(trigger): on_final is not a trigger; use on_close(), on_final()",
        ),
        (
            lambda k: k.window(tumbling("365001d")),
            'tumbling("365001d") is longer than 365,000 days',
        ),
        (lambda k: k.window(on_close()), "window: on_close() is not a window; use tumbling()"),
        (
            lambda k: k.window(MINUTE, trigger=hopping("1h", "5m", offset="1m")),
            'window(trigger): hopping("1h", "5m", offset="1m") is not a trigger',
        ),
        (
            lambda k: k.window(MINUTE).aggregate(n=every(event_time="10s")),
            'aggregate(n): every(event_time="10s") is not an aggregate',
        ),
        (lambda k: k.window(sum("score")), 'window: sum("score") is not a window'),
        (lambda k: k.window(bounded("2s")), 'window: bounded("2s") is not a window'),
        (lambda k: k.window(RECORD_TIME), "window: RECORD_TIME is not a window"),
        (lambda k: k.window(k), "window: KeyedStream(key: player) is not a window"),
        (lambda k: k.window(MINUTE, trigger=3, empty=True), "window(trigger): 3 is not a trigger"),
        (lambda k: k.window(MINUTE, empty="no"), "window(empty): 'no' is not True or False"),
        (
            lambda k: k.window(MINUTE, accumulation="both"),
            "window(accumulation): 'both' is not one of",
        ),
        (lambda k: k.window(MINUTE, lateness="strict"), "'strict' is an option of session() only"),
        (
            lambda k: k.window(session("1ms"), lateness="lax"),
            "window(lateness): 'lax' is not one",
        ),
        (lambda k: k.window(MINUTE).aggregate(), "aggregate(): no aggregates"),
        (
            lambda k: k.window(MINUTE).aggregate(n=builtins.max("abc")),
            "aggregate(n): 'c' is not an aggregate",
        ),
        (
            lambda k: k.window(MINUTE).aggregate(n=count),
            "aggregate(n): count is not an aggregate; use count()",
        ),
        (lambda k: k.window(MINUTE).aggregate(n=sum("scores")), UNKNOWN),
        (lambda k: k.window(MINUTE).aggregate(n=mean("player")), 'column "player" is String'),
        (lambda k: k.window(MINUTE).aggregate(player=count()), "'player' clashes with key column"),
        (lambda k: k.window(MINUTE).aggregate(end=count()), "'end' clashes with a field of every"),
        (lambda k: k.window(MINUTE).aggregate(end_of_input=count()), "clashes with a field of"),
        (lambda k: k.window(MINUTE).aggregate(**{"@n": count()}), "begin with '@' are reserved"),
        (
            lambda k: k.window(MINUTE).aggregate(n=count()).to("a b"),
            "to(name): 'a b' is not a legal",
        ),
        (lambda k: k.window(MINUTE).aggregate(n=count()).to("x" * 240), "is longer than 249"),
        (
            lambda k: k.window(MINUTE).aggregate(n=count()).to("x", format="xml"),
            "to('x'): format 'xml' is not one of ('json', 'avro')",
        ),
    ],
)
def test_a_mistake_behind_the_key_is_named_where_it_is_made(build, message):
    keyed = moves().key_by("player")
    with refused(message):
        build(keyed)


def test_a_key_column_that_reads_like_a_part_of_an_aggregate_is_refused():
    keyed = moves().with_columns(**{"n.sum": col("at")}).key_by("n.sum")
    with refused("'n' clashes with key column 'n.sum'"):
        keyed.window(MINUTE).aggregate(n=count())


@pytest.mark.parametrize("name", ["out", "out.late", "dead-letters"])
def test_an_output_whose_topics_are_taken_is_refused(name):
    pipeline = Pipeline("game")
    panes = moves(pipeline).key_by("player").window(MINUTE).aggregate(n=count())
    panes.to("out")
    with refused(f"to({name!r}): the pipeline already has topic 'game.{name}'"):
        panes.to(name)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"so far": col("at")}, "column 'so far' is not a valid Avro name; use format='json'"),
        ({"day": col("at").cast(pl.Time)}, "Avro results cannot hold Time; use format='json'"),
    ],
)
def test_what_avro_cannot_hold_is_refused_for_avro_alone(columns, message):
    panes = moves().with_columns(**columns).key_by("player").window(MINUTE).aggregate(n=count())
    panes.to("plain")
    with refused(message):
        panes.to("binary", format="avro")


def test_an_output_that_would_feed_its_own_source_is_refused():
    pipeline = Pipeline("game")
    panes = moves(pipeline, "game.out").key_by("player").window(MINUTE).aggregate(n=count())
    with refused("to('out'): the pipeline already has topic 'game.out'"):
        panes.to("out")
