"""The program of ingest: what it records, and which changes of a pipeline no log may have."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tidemark import Pipeline, StateError, bounded, col, count, field, session, tumbling
from tidemark.plan.changes import changes
from tidemark.plan.placement import placed
from tidemark.plan.program import decode_program, encode_program, program_of

SCHEMA = {"id": str, "city": str, "v": int, "tags": list[str]}


def built(shape=lambda s: s, key="id", schema=SCHEMA, more=(), partitions=4, **options):
    pipeline = Pipeline("p", partitions=partitions)
    options = {"event_time": "at", "watermark": bounded("2s"), **options}
    source = pipeline.source("raw", schema={"at": int, **schema}, **options)
    shape(source).key_by(key).window(tumbling("1m")).aggregate(n=count()).to("out")
    for number, (other, by) in enumerate(more):
        other(source).key_by(by).window(tumbling("1m")).aggregate(n=count()).to(f"more-{number}")
    return pipeline.plan()


def found(recorded, plan):
    """Return the changes that ingest finds at its start."""
    return changes(recorded, program_of(placed(plan, recorded)))


def changed(before, after):
    """Return what a comparison of plans names; also that of the other direction is not empty."""
    texts = [str(each) for each in found(program_of(before), after)]
    assert bool(texts) == bool(found(program_of(after), before))
    return texts


def test_a_program_is_the_same_as_itself_and_as_what_was_recorded():
    plan = built(lambda s: s.filter(col("v") > 3))
    program = program_of(plan)
    assert changed(plan, built(lambda s: s.filter(col("v") > 3))) == []
    assert decode_program(encode_program(program)) == program


@pytest.mark.parametrize(
    "after",
    [
        built(schema={**SCHEMA, "w": float}),
        built(schema={name: kind for name, kind in SCHEMA.items() if name != "tags"}),
        built(lambda s: s.with_columns(w=col("v") * 2)),
        built(lambda s: s.select("id", "v", code=col("city"))),
        built(key="city"),
        built(more=[(lambda s: s, "city")]),
        built(more=[(lambda s: s.filter(col("v") > 3), "id")]),
        built(idle_after="3s"),
        built(max_drift="1m"),
    ],
    ids=lambda _: "",
)
def test_new_and_removed_columns_keys_and_streams_are_no_changes(after):
    assert changed(built(), after) == []


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (built(schema={**SCHEMA, "v": float}), ["type of v was Int64, is now Float64"]),
        (built(lambda s: s.filter(col("v") > 3)), ["the choice of rows was all rows", "filter"]),
        (built(lambda s: s.explode("tags")), ["was all rows, is now explode(tags)"]),
        (built(lambda s: s.with_columns(v=col("v") + 1)), ["the expression of v was v, is now"]),
        (built(event_time="v"), ["event time of source raw was at (ms), is now v (ms)"]),
        (
            built(schema={**SCHEMA, "v": field("v", int, lenient=True)}),
            ["in source raw the type of v was Int64, is now Int64 lenient"],
        ),
        (
            built(schema={**SCHEMA, "v": field("w.v", int, default=0)}),
            ["the type of v was Int64, is now Int64 from 'w'.'v' default 0"],
        ),
        (built(unit="s"), ["was at (ms), is now at (s)"]),
        (built(watermark=bounded("3s")), ["was bounded(2s), is now bounded(3s)"]),
        (built(max_future="1h"), ["max_future of source raw was none, is now 1h"]),
        (built(min_time="2020-01-01T00:00:00Z"), ["was none, is now 2020-01-01"]),
        (built(partitions=8), ["partitions of log p.by-id.log was 4, is now 8"]),
    ],
    ids=lambda case: case[0] if isinstance(case, list) else "",
)
def test_a_change_of_what_a_log_holds_is_named_with_both_values(after, words):
    text = "; ".join(changed(built(), after))
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda s: s.filter(col("v") > 3), lambda s: s.filter(col("v") > 4)),
        (
            lambda s: s.filter(col("city").is_in(["a", "b", "c", "d", "z"])),
            lambda s: s.filter(col("city").is_in(["a", "b", "x", "d", "z"])),
        ),
        (
            lambda s: s.with_columns(w=col("v") * 2).filter(col("w") > 3),
            lambda s: s.with_columns(w=col("v") * 3).filter(col("w") > 3),
        ),
        (
            lambda s: s.with_columns(w=col("v") * 2, u=col("v")).with_columns(w=col("w") + 1),
            lambda s: s.with_columns(w=col("v") * 3, u=col("v")).with_columns(w=col("w") + 1),
        ),
        (
            lambda s: s.filter(col("v") > 3).union(s.filter(col("v") < 1)),
            lambda s: s.filter(col("v") > 3).union(s.filter(col("v") < 2)),
        ),
    ],
)
def test_a_change_upstream_is_a_change(before, after):
    assert changed(built(before), built(after)) != []
    assert changed(built(before), built(before)) == []


def test_a_column_that_only_got_a_name_is_made_as_before():
    assert changed(built(lambda s: s.select("id", "v")), built(lambda s: s)) == []
    renamed = built(lambda s: s.select("id", w=col("v")))
    assert changed(renamed, built(lambda s: s.with_columns(w=col("v")))) == []


def test_the_gap_of_sessions_is_a_change_of_rows():
    def with_gap(gap):
        pipeline = Pipeline("p")
        source = pipeline.source(
            "raw", schema={"at": int, **SCHEMA}, event_time="at", watermark=bounded("2s")
        )
        windows = source.key_by("id").window(session(gap))
        windows.aggregate(n=count()).to("out")
        return pipeline.plan()

    assert changed(with_gap(col("v") + 1), with_gap(col("v") + 2)) != []


def test_expressions_of_another_version_of_polars_are_not_compared():
    program = program_of(built(lambda s: s.filter(col("v") > 3)))
    before = msgspec.structs.replace(program, polars="0.1")
    for after in (built(lambda s: s.filter(col("v") > 4)), built(lambda s: s.filter(col("v") > 3))):
        assert placed(after, before).logs[0].streams[0].name == "raw"
        assert found(before, after) == []
    assert found(before, built(schema={**SCHEMA, "v": float})) != []


def test_only_another_number_of_partitions_needs_other_topics():
    before = program_of(built())
    assert [each.topics for each in found(before, built(partitions=8))] == [True]
    assert [each.topics for each in found(before, built(max_future="1h"))] == [False]


def test_a_changed_stream_names_its_outputs():
    whole = [(lambda s: s, "city"), (lambda s: s, "id")]
    filtered = [(lambda s: s, "city"), (lambda s: s.filter(col("v") > 3), "id")]
    (change,) = found(program_of(built(more=whole)), built(more=filtered))
    assert change.outputs == ("more-1",)
    assert str(change).startswith("in output more-1, the choice of rows was all rows, is now")
    (change,) = found(program_of(built()), built(watermark=bounded("3s")))
    assert change.outputs == ()


def test_a_program_of_a_newer_version_or_damaged_is_refused():
    newer = encode_program(msgspec.structs.replace(program_of(built()), version=99))
    for data, word in ((newer, "newer Tidemark"), (b"{}", "cannot be read")):
        with pytest.raises(StateError, match=word):
            decode_program(data)


def test_every_process_records_the_same_program():
    code = (
        "import sys; from tests.plan.test_program import built, col, encode_program, program_of;"
        "sys.stdout.buffer.write(encode_program(program_of(built(lambda s: s.filter("
        "col('city').is_in(list('abcdefgh'))))))) "
    )
    run = [sys.executable, "-c", code]
    here = Path(__file__).parents[2]
    one, two = (subprocess.run(run, capture_output=True, cwd=here, check=True) for _ in range(2))
    assert one.stdout == two.stdout != b""
