"""Columns that a stream gains where its log exists: docs/operations.md, "Streams and logs"."""

from tests.plan.deployments import READS, WIDE, A, B, places, planned, recorded
from tidemark import Pipeline, bounded, col
from tidemark.plan.changes import changes, columns_lacking, gaining_outputs, without_outputs
from tidemark.plan.physical import Plan
from tidemark.plan.placement import placed
from tidemark.plan.program import program_of
from tidemark.plan.recording import recorded_after

NEW = "raw#2", "p.by-id.2.log"


def test_a_stream_may_gain_columns_that_its_outputs_do_not_read():
    record = recorded({"a": A, "b": B})
    for name in ("a", "c"):
        assert places(placed(planned({"b": B, name: WIDE}), record))[name] == (
            "raw",
            "p.by-id.log",
        )
    record = recorded({"a": WIDE, "b": B})
    assert places(placed(planned({"b": B, "c": A}), record))["c"] == ("raw", "p.by-id.log")


def test_a_new_output_on_a_column_that_a_stream_gained_gets_a_log_from_raw():
    for record in (recorded({"a": A}), recorded({"a": A}, {"a": WIDE})):
        plan = placed(planned({"a": WIDE, "b": READS, "c": WIDE}), record)
        assert places(plan) == {"a": ("raw", "p.by-id.log"), "b": NEW, "c": ("raw", "p.by-id.log")}
        assert plan.sources[0].graph.streams["raw"] == plan.sources[0].graph.streams["raw#2"]
        assert changes(record, program_of(plan)) == []
    after = recorded({"a": A}, {"a": WIDE}, {"a": WIDE, "b": READS})
    assert after.logs["p.by-id.log"].streams["raw"].gained == ["w"]
    assert after.logs["p.by-id.2.log"].streams["raw#2"].gained == []
    found = places(placed(planned({"c": READS, "a": WIDE, "b": READS}), after))
    assert found == {"a": ("raw", "p.by-id.log"), "b": NEW, "c": NEW}


def test_an_output_that_reads_a_column_which_its_stream_gained_is_refused_until_accepted():
    for record in (recorded({"a": A, "b": A}), recorded({"a": A, "b": A}, {"a": WIDE, "b": WIDE})):
        plan = placed(planned({"a": WIDE, "b": READS}), record)
        program = program_of(plan)
        (change,) = changes(record, program)
        assert change.outputs == ("b",)
        assert str(change) == (
            "in output b, the column w was not in all rows of its log, is now read"
        )
        accepted = without_outputs(record, program, ["b"])
        assert changes(accepted, program) == []
        assert places(placed(planned({"a": WIDE, "b": READS}), accepted)) == places(plan)
        assert places(plan) == {"a": ("raw", "p.by-id.log"), "b": NEW}


def test_a_column_that_was_away_is_not_in_all_rows():
    record = recorded({"a": A, "b": READS}, {"a": A}, {"a": WIDE})
    assert places(placed(planned({"a": WIDE, "b": READS}), record))["b"][1] != "p.by-id.log"
    record = recorded({"a": WIDE, "b": READS}, {"a": A}, {"a": WIDE})
    assert record.logs["p.by-id.log"].streams["raw"].gained == ["w"]


def rows_as_they_are(*names: str, wide: bool) -> Plan:
    """Return the plan of outputs of rows; ``wide``: with a further column."""
    pipeline = Pipeline("p", partitions=2)
    schema = {"at": int, "id": str, "v": int}
    rows = pipeline.source("raw", schema=schema, event_time="at", watermark=bounded("2s"))
    stream = rows.with_columns(w=col("v")) if wide else rows
    for name in names:
        stream.key_by("id").to(name)
    return pipeline.plan()


def test_rows_as_they_are_go_on_with_a_new_column_and_a_new_output_has_it_in_all_rows():
    record = program_of(rows_as_they_are("a", wide=False))
    wide = placed(rows_as_they_are("a", "b", wide=True), record)
    assert places(wide) == {"a": ("raw", "p.by-id.log"), "b": NEW}
    program = program_of(wide)
    assert changes(record, program) == []
    assert gaining_outputs(record, program) == {"a"}  # so a reset gives it a stream from raw
    after = recorded_after(record, program)
    accepted = without_outputs(after, program, ["a"])
    assert places(placed(rows_as_they_are("a", "b", wide=True), accepted)) == {"a": NEW, "b": NEW}
    assert gaining_outputs(record, program_of(rows_as_they_are("a", wide=False))) == frozenset()


def test_a_replay_of_a_log_needs_the_columns_that_outputs_read():
    record = recorded({"a": A, "b": A}, {"a": WIDE, "b": WIDE})
    for outputs, lacking in ({"a": WIDE, "b": READS}, ["b"]), ({"a": WIDE, "b": WIDE}, []):
        plan = placed(planned(outputs), record, replays=True)
        assert places(plan)["b"] == ("raw", "p.by-id.log")
        found = columns_lacking(record, program_of(plan))
        assert [each.outputs for each in found] == [(name,) for name in lacking]
