"""``match`` as users write it: what its results are, and what a plan says of a pattern."""

import polars as pl
import pytest

from tests.language.patterns.steps import FAST, SLOW, TWO
from tests.support.mistakes import moves
from tidemark import (
    Pipeline,
    bounded,
    col,
    collect,
    count,
    field,
    last,
    lit,
    max,  # noqa: A004 - the word of the language
    never,
    prev,
    sequence,
    step,
    to_last,
)
from tidemark import sum as total
from tidemark.commands.schemas import result_schemas
from tidemark.core.operators.ports import LATE
from tidemark.plan.explain import render_mermaid, render_text


def test_values_have_the_types_of_their_columns_and_aggregates():
    found = (
        moves()
        .key_by("player")
        .match(TWO)
        .select(
            tags="fast.tags",
            n=count("fast"),
            rows=count(),
            ats=collect("slow.at"),
            s=total("slow.speed"),
        )
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
