"""``match`` as users write it: what is refused, and what a plan says of a pattern."""

from typing import Any

import polars as pl
import pytest

import tidemark
from tests.support.mistakes import moves, refused
from tidemark import (
    Pipeline,
    bounded,
    col,
    collect,
    count,
    field,
    first,
    last,
    lit,
    max,  # noqa: A004 - the word of the language
    never,
    prev,
    sequence,
    step,
    to_first,
    to_last,
    tumbling,
)
from tidemark import sum as total
from tidemark.commands.schemas import result_schemas
from tidemark.core.operators.ports import LATE
from tidemark.plan.explain import render_mermaid, render_text

WORDS: Any = tidemark  # mistakes have wrong types
FAST, SLOW = step(col("speed") > 3), step(col("speed") < 1)
WORDS_OF_STEP: Any = FAST
TWO = sequence(fast=FAST, slow=SLOW).within("10m")


def match(pattern=TWO, keys=("player",), **options):
    return moves().key_by(*keys).match(pattern, **options)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: WORDS.sequence(),
            "sequence(): no steps; pass them in order, as name=step(condition)",
        ),
        (
            lambda: WORDS.sequence(a=col("vip")),
            'sequence(a): col("vip") is not a step; write a=step(',
        ),
        (lambda: WORDS.sequence(a=3), "sequence(a): 3 is not step(...) or never(...)"),
        (lambda: WORDS.sequence(a=never(col("vip")), b=FAST), "a pattern begins with a step"),
        (lambda: WORDS.sequence(**{"@a": FAST}), "names that begin with '@' are reserved"),
        (lambda: WORDS.sequence(_offset=FAST), "'_offset' is a metadata column"),
        (lambda: WORDS.sequence(a=FAST).within("0s"), "within: '0s' is not longer than 0"),
        (lambda: WORDS.sequence(a=FAST).within("9000000d"), "within: 9000000d is longer than"),
        (
            lambda: WORDS.absence(of="vip", for_="1m"),
            "absence(of): 'vip' is a str, not an expression",
        ),
        (
            lambda: WORDS.absence(of=col("vip"), for_="-1m"),
            "absence(for_): '-1m' is not longer than 0",
        ),
        (lambda: WORDS.step(True), "step: True is a bool, not an expression such as col('a') > 1"),
        (lambda: WORDS.step(col("vip"), on="x"), "step(on): 'x' is a str, not an expression"),
        (
            lambda: WORDS.step(col("vip"), contiguity="then"),
            "step(contiguity): 'then' is not one of",
        ),
        (lambda: WORDS.never("x"), "never: 'x' is a str, not an expression"),
        (lambda: WORDS_OF_STEP.until(3), "until: 3 is a int, not an expression"),
        (lambda: WORDS_OF_STEP.times(0), "times(0): the minimum is 1 or more"),
        (
            lambda: WORDS_OF_STEP.times(3, 2),
            "times(3, 2): the minimum is 1 or more, the maximum at least",
        ),
        (lambda: WORDS_OF_STEP.times(1.5), "times(least): 1.5 is not an integer"),
        (lambda: WORDS_OF_STEP.times(2, True), "times(most): True is not an integer"),
        (lambda: WORDS_OF_STEP.times(2).one_or_more(), "one_or_more(): step("),
        (
            lambda: WORDS_OF_STEP.one_or_more(contiguity="x"),
            "one_or_more(contiguity): 'x' is not one of",
        ),
        (lambda: WORDS_OF_STEP.times(2).optional(), "optional(): the step takes at least 2 rows"),
        (
            lambda: WORDS_OF_STEP.optional().times(2),
            "times(): optional() allows no row, and 2 is the least",
        ),
    ],
)
def test_a_wrong_part_of_a_pattern_is_refused(build, message):
    with refused(message):
        build()


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        (FAST, {}, "is not a pattern; write sequence(...) or absence(...)"),
        (sequence(fast=FAST), {}, 'sequence(fast) has no time; a pattern ends, so call within("'),
        (sequence(a=FAST.optional()).within("1m"), {}, "give a step that each match has"),
        (sequence(**{"a.b": FAST}).within("1m"), {}, "contain a dot"),
        (sequence(a=step(col("nobody"))).within("1m"), {}, "step a: the stream has no column"),
        (
            sequence(a=step(col("speed"))).within("1m"),
            {},
            'step a: col("speed") gives Float64, not',
        ),
        (sequence(a=step(pl.all() > 1)).within("1m"), {}, "step a"),
        (sequence(a=step(col("_offset") > 1)).within("1m"), {}, "'_offset' is of a Kafka record"),
        (sequence(a=step(col("speed") > col("speed").shift())).within("1m"), {}, "step a"),
        (
            sequence(a=FAST, b=step(col("speed") > col("a.speed"))).within("1m"),
            {},
            "names 'a.speed', a column of a step; write a condition on earlier rows as step(...",
        ),
        (
            sequence(a=FAST, n=never(col("speed") > col("a.speed")), b=SLOW).within("1m"),
            {},
            "never n: ",
        ),
        (
            sequence(a=step(col("vip"), on=col("b.vip")), b=FAST).within("1m"),
            {},
            "step a(on): col(\"b.vip\") names 'b.vip', and step b comes after step a; put the",
        ),
        (
            sequence(a=FAST, b=step(col("vip"), on=col("a.x") > 1)).within("1m"),
            {},
            "step b(on): the stream has no column 'a.x'",
        ),
        (sequence(a=FAST.until(col("speed"))).within("1m"), {}, "until of step a: "),
        (sequence(a=FAST, n=never(col("at"))).within("1m"), {}, "never n: "),
        (TWO, {"skip": "past"}, "match(skip): 'past' is not one of 'past_last', 'to_next', 'none'"),
        (TWO, {"skip": to_first("fast")}, "it can have the first row of a match"),
        (TWO, {"skip": to_last("quick")}, "skip to step 'quick': the pattern has the steps"),
        (TWO, {"max_partial": 0}, "match(max_partial): 0 is not a positive integer"),
        (TWO, {"max_partial": True}, "match(max_partial): True is not a positive integer"),
        (TWO, {"keys": ()}, "match: key_by() has no column; name those that rows have in common"),
    ],
)
def test_a_wrong_match_is_refused(pattern, options, message):
    with refused(message):
        match(pattern, **options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": "speed"}, "select(x): 'speed' is not a column of a step; the steps are fast, slow"),
        ({"x": "quick.at"}, "select(x): 'quick.at' is not a column of a step"),
        ({"x": "fast.nobody"}, "select(x)='fast.nobody': the stream has no column 'nobody'"),
        ({"x": 3}, 'select(x): 3 is not a column of a step, such as "fast.player", or an aggre'),
        ({"player": "fast.at"}, "select(player): it is a column of the key"),
        ({"_rows": "fast.at"}, "select(_rows): it clashes with a field of every match"),
        ({"_id": "fast.at"}, "select(_id): it clashes with a field of every match"),
        ({"@x": "fast.at"}, "names that begin with '@' are reserved"),
        ({"x": max("speed")}, 'select(x): max("speed") names no step; the steps are fast, slow'),
        ({"x": max("fast.nobody")}, "fast.nobody"),
        ({"x": total("fast.player")}, "sum"),
        ({"x": first("fast.at", order="arrival")}, 'leave out order="arrival"'),
        ({"x": count("fast", where=col("slow.at") > 1)}, "is of rows of the steps fast, slow"),
    ],
)
def test_a_wrong_value_is_refused(values, message):
    with refused(message):
        match().select(**values)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda m: m.select().to("a", format="xml"), "format 'xml' is not one of"),
        (lambda m: m.filter(col("player") == "a"), "call select() before filter; it says what"),
        (lambda m: m.timeouts, "call select() before timeouts"),
        (lambda m: m.select().window(tumbling("1m")), "call key_by() first"),
        (
            lambda m: m.select(n=count()).late.key_by("player").match(TWO),
            "match: rows of late are behind their watermark, and match takes no such row",
        ),
    ],
)
def test_a_wrong_use_of_matches_is_refused(build, message):
    with refused(message):
        build(match())


def test_rows_that_replace_each_other_are_refused():
    windows = moves().key_by("player").window(tumbling("1m"), allowed_lateness="1m")
    counts = windows.aggregate(n=count())
    many = sequence(many=step(col("n") > 5)).within("1h")

    with refused("match: rows of updates() replace each other"):
        counts.updates().key_by("player").match(many)
    counts.key_by("player").match(many).select(n="many.n").to("many")


def test_a_column_may_not_have_the_name_of_a_column_of_a_step():
    dotted = moves().with_columns(col("at").alias("fast.at"))

    with refused("sequence(fast): the stream has a column 'fast.at'"):
        dotted.key_by("player").match(TWO)


def test_a_key_may_not_have_the_name_of_a_field_of_every_match():
    with refused("match: column '_rows' of the key clashes with a field of every match"):
        moves().key_by(_rows="player").match(TWO)


def test_values_have_the_types_of_their_columns_and_aggregates():
    found = match().select(
        tags="fast.tags",
        n=count("fast"),
        rows=count(),
        ats=collect("slow.at"),
        s=total("slow.speed"),
    )

    assert found.columns == {
        "player": pl.String(),
        "tags": pl.List(pl.String()),
        "n": pl.Int64(),
        "rows": pl.Int64(),
        "ats": pl.List(pl.Int64()),
        "s": pl.Float64(),
        "_rows": found.columns["_rows"],
    }
    assert found.timeouts.columns == found.columns
    assert found.timeouts.timeouts is found.timeouts


def test_a_plan_shows_the_pattern_its_values_and_its_service():
    pipeline = Pipeline("shown")
    rows = moves(pipeline).key_by("player")
    steps = sequence(
        a=step(col("speed") > 3).one_or_more(contiguity="next").greedy().until(col("vip")),
        calm=never(col("score") > 9),
        b=step(col("speed") < 1, on=col("at") > col("a.at"), contiguity="next").times(2, 4),
        c=step(col("vip")).optional(),
        end=never(col("vip")),
    ).within("10m")
    found = rows.match(steps, skip=to_last("b"), max_partial=7).select(at="a.at", n=count("a"))
    found.to("found")
    found.timeouts.filter(col("n") > 1).to("ended")
    plan = pipeline.plan()
    text = render_text(plan)

    for part in (
        "a {1,} next greedy: ",
        'never [(col("score")) > ',
        "next b {2,4}: ",
        "c {0,1}: ",
        'within 10m, skip to_last(b), at most 7 partial matches a key, at="a.at", n=count("a")',
        "timeouts of pattern a",
        "results of player.a-b-c.timeouts",
    ):
        assert part in text, text
    assert "pattern a" in render_mermaid(plan)
    assert plan.services() == ("ingest", "windowing", "patterns")
    assert plan.of_service("patterns")[0].operator.horizon_ms == 600_000
    assert plan.sources[0].longest_window_ms == 600_000


def test_results_depend_on_the_columns_of_conditions_and_values_only():
    steps = sequence(a=step(col("vip")), b=step(col("score") > 1, on=col("speed") > col("a.speed")))
    pipeline = Pipeline("reading")
    found = moves(pipeline).key_by("player").match(steps.within("1m"))
    found.select(tags="a.tags", n=count("b")).to("found")
    (operator,) = pipeline.plan().operators

    assert operator.reads == frozenset({"player", "vip", "score", "speed", "tags"})


@pytest.mark.parametrize(
    ("changed", "fits"),
    [
        ({}, True),
        ({"values": {"n": count("fast")}}, True),
        ({"max_partial": 5}, False),
        ({"skip": "to_next"}, False),
        ({"pattern": sequence(fast=FAST, slow=SLOW).within("11m")}, False),
        ({"pattern": sequence(fast=FAST, slow=SLOW.times(2)).within("10m")}, False),
        (
            {"pattern": sequence(fast=FAST, n=never(lit(value=True)), slow=SLOW).within("10m")},
            False,
        ),
    ],
)
def test_state_fits_only_the_same_pattern(changed, fits):
    def signature(values, **options):
        pipeline = Pipeline("signed")
        rows = moves(pipeline).key_by("player")
        rows.match(options.pop("pattern", TWO), **options).select(**values).to("found")
        return pipeline.plan().operators[0].state_signature

    values = changed.pop("values", {"at": "fast.at"})
    assert (signature(values, **changed) == signature({"at": "fast.at"})) == fits


def test_the_schemas_of_results_have_the_values_and_the_rows():
    pipeline = Pipeline("schemas")
    found = moves(pipeline).key_by("player").match(TWO).select(at="fast.at", n=count("fast"))
    found.to("found", format="avro")
    schemas = result_schemas(pipeline.plan())

    names = [field["name"] for field in schemas["schemas.found"]["fields"]]
    assert names == ["_id", "player", "at", "n", "_rows", "_event_time_ms"]
    assert "schemas.found.late" in schemas


def test_late_rows_are_a_topic_and_a_stream():
    pipeline = Pipeline("lates")
    found = moves(pipeline).key_by("player").match(TWO).select()
    found.to("found")
    found.late.select("player", "late_by_ms").to("missed")
    plan = pipeline.plan()

    kinds = {each.topic: each.port.kind for each in plan.operators[0].ports}
    assert kinds["lates.found.late"] == LATE
    assert "late rows of pattern fast" in render_text(plan)


def test_a_value_of_a_nested_column_needs_a_column_of_its_own():
    pipeline = Pipeline("nested")
    rows = pipeline.source(
        "rows",
        schema={"id": str, "at": int, "user": {"age": int}},
        event_time="at",
        watermark=bounded("0s"),
    )
    old = sequence(old=step(field("user.age") > 90)).within("1m")

    found = rows.key_by("id").match(old).select(user="old.user")
    assert isinstance(found.columns["user"], pl.Struct)


def test_matches_of_rows_in_order_and_of_matches():
    rows = moves().key_by("player").scan(before=prev("score"))
    up = sequence(up=step(col("score") > col("before"))).within("1m")
    ups = rows.key_by("player").match(up).select(score="up.score")
    three = sequence(three=step(col("score") > 0).times(3)).within("1h")
    found = (
        ups.key_by("player").match(three).select(top=max("three.score"), last=last("three.score"))
    )

    assert found.columns["top"] == pl.Int64()
