"""The option ``explode`` of a source: wrong options, and what a plan says of it."""

import pytest

from tidemark import Pipeline, PipelineError, count, field, monotonic, tumbling
from tidemark.plan.changes import changes
from tidemark.plan.explain import render_text
from tidemark.plan.program import program_of

COLUMNS = {"id": str, "at": field("items.at", int)}


def plan(**options):
    pipeline = Pipeline("p")
    source = pipeline.source("t", event_time="at", watermark=monotonic(), **options)
    source.key_by("id").window(tumbling("1s")).aggregate(n=count()).to("o")
    return pipeline.plan()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"explode": ""}, "explode: '' is not a path"),
        ({"format": "csv", "schema": {"id": str, "at": int}}, "hold no lists; use explode() of"),
        ({"schema": None}, "explode='items' needs schema=, the columns of a row"),
        (
            {"schema": {"id": str, "at": int, "items": [{"v": int}]}},
            "column 'items' is a list of objects, but each row has one item of the list",
        ),
        (
            {"schema": {"id": str, "at": int, "data": dict[str, int]}, "explode": "data.items"},
            "column 'data' reads 'data' as Map(Int64), but it must be a dict of members",
        ),
        (
            {"schema": {"id": str, "at": int, "data": [{"v": int}]}, "explode": "data.items"},
            "it must be a dict of members, because the list is in it",
        ),
    ],
)
def test_a_wrong_option_names_itself(options, reason):
    with pytest.raises(PipelineError) as caught:
        plan(**{"schema": COLUMNS, "explode": "items", **options})
    assert reason in str(caught.value)


def test_a_plan_names_the_list_and_its_change_is_refused():
    before, after = plan(schema=COLUMNS), plan(schema=COLUMNS, explode="items")
    assert "format json exploded by 'items'" in render_text(after)
    (change,) = changes(program_of(before), program_of(after))
    assert "the format of source t" in str(change)
    assert before.sources[0].format != after.sources[0].format
