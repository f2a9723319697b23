"""What ``match`` refuses: parts of patterns, options, and values that no row has."""

from typing import Any

import polars as pl
import pytest

import tidemark
from tests.language.patterns.steps import FAST, SLOW, TWO
from tests.support.mistakes import moves, refused
from tidemark import (
    col,
    count,
    first,
    max,  # noqa: A004 - the word of the language
    never,
    sequence,
    step,
    to_first,
    to_last,
    tumbling,
)
from tidemark import sum as total

WORDS: Any = tidemark  # mistakes have wrong types
WORDS_OF_STEP: Any = FAST


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
