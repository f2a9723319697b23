"""Names and logs of streams where logs exist: docs/operations.md, "Streams and logs"."""

import random
from itertools import permutations

import pytest
from msgspec.structs import replace

from tests.plan.deployments import CITY, READS, WIDE, A, B, C, Rows, places, planned, recorded
from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark.plan.changes import changes, without_outputs
from tidemark.plan.physical import Plan
from tidemark.plan.placement import placed, placement
from tidemark.plan.program import Program, decode_program, encode_program, program_of
from tidemark.plan.recording import begun_again, recorded_after


@pytest.mark.parametrize("names", [*permutations("abc")])
def test_the_order_of_outputs_changes_no_name(names):
    all_ = {"a": A, "b": B, "c": C}
    record = recorded(all_)
    before = places(planned(all_))
    assert places(placed(planned({name: all_[name] for name in names}), record)) == before
    for name in names:
        rest = {each: rows for each, rows in all_.items() if each != name}
        after = {each: place for each, place in before.items() if each != name}
        assert places(placed(planned(rest), record)) == after
    changed = {**{name: all_[name] for name in names}, names[0]: CITY}
    moved = places(placed(planned(changed), record))
    assert moved.pop(names[0])[1] == "p.by-city.log"
    assert moved.items() <= before.items()


def test_without_a_record_names_are_those_of_the_compiler():
    plan = planned({"a": A, "b": B, "c": CITY})
    assert places(plan) == {
        "a": ("raw", "p.by-id.log"),
        "b": ("raw#2", "p.by-id.log"),
        "c": ("raw#3", "p.by-city.log"),
    }
    assert places(placed(plan, program_of(plan))) == places(plan)


def test_new_streams_of_a_key_share_a_new_log():
    record = recorded({"a": A})
    found = places(placed(planned({"c": C, "a": A, "b": B, "d": CITY}), record))
    assert found == {
        "a": ("raw", "p.by-id.log"),
        "c": ("raw#2", "p.by-id.2.log"),
        "b": ("raw#3", "p.by-id.2.log"),
        "d": ("raw#4", "p.by-city.log"),
    }
    later = recorded({"a": A}, {"a": A, "b": B})
    assert places(placed(planned({"a": A, "b": B, "c": C}), later))["c"] == (
        "raw#3",
        "p.by-id.3.log",
    )


def test_a_stream_that_ended_in_a_log_that_goes_on_returns_in_a_new_log():
    record = recorded({"a": A, "b": B}, {"a": A}, {"a": A, "b": B})
    assert places(placed(planned({"a": A, "b": B}), record))["b"] == ("raw#3", "p.by-id.2.log")
    assert record.logs["p.by-id.log"].ended == ["raw#2"]


def test_streams_that_ended_together_with_their_log_go_on_in_it():
    three = {"a": CITY, "b": Rows("city", 1), "c": A}
    record = recorded(three, {"c": A})
    assert not record.logs["p.by-city.log"].is_written
    assert places(placed(planned(three), record)) == places(planned(three))
    one = recorded(three, {"c": A}, {"c": A, "b": Rows("city", 1)})
    assert places(placed(planned(three), one)) == {
        **places(planned(three)),
        "a": ("raw#4", "p.by-city.2.log"),
    }


def test_an_output_with_another_raw_topic_is_a_new_stream():
    record = recorded({"a": A, "b": B})
    both = {"a": Rows(other=True), "b": B}
    assert places(placed(planned(both), record)) == {
        "a": ("other+raw", "p.by-id.2.log"),
        "b": ("raw#2", "p.by-id.log"),
    }
    assert changes(record, program_of(placed(planned(both), record))) == []


def test_a_changed_output_is_refused_until_its_change_is_accepted():
    record = recorded({"a": A, "b": A, "c": B})
    plan = planned({"a": A, "b": C, "c": C})
    program = program_of(placed(plan, record))
    assert {each.outputs for each in changes(record, program)} == {("b",), ("c",)}
    some = without_outputs(record, program, ["b"])
    assert {each.outputs for each in changes(some, program)} == {("c",)}
    accepted = without_outputs(some, program, ["c"])
    assert changes(accepted, program) == []
    for known in (record, some, accepted, recorded_after(accepted, program)):
        assert places(placed(plan, known)) == {
            "a": ("raw", "p.by-id.log"),
            "b": ("raw#3", "p.by-id.2.log"),
            "c": ("raw#3", "p.by-id.2.log"),
        }


def test_a_replay_keeps_the_log_of_an_output_that_has_changed():
    record = recorded({"a": A, "b": B})
    plan = planned({"b": C, "a": A})
    assert places(placed(plan, record, replays=True))["b"] == ("raw#2", "p.by-id.log")


def test_a_change_of_a_source_leaves_all_streams_where_they_are():
    def of_type(score: type) -> Plan:
        pipeline = Pipeline("p")
        source = pipeline.source(
            "raw",
            schema={"at": int, "id": str, "v": score},
            event_time="at",
            watermark=bounded("2s"),
        )
        source.key_by("id").window(tumbling("1m")).aggregate(n=count()).to("a")
        return pipeline.plan()

    record = program_of(of_type(int))
    plan = placed(of_type(float), record)
    assert places(plan) == {"a": ("raw", "p.by-id.log")}
    (change,) = changes(record, program_of(plan))
    assert str(change) == "in source raw the type of v was Int64, is now Float64"


def test_a_reset_of_all_takes_no_other_log_again():
    record = recorded({"a": A, "c": CITY}, {"a": A}, {"a": A, "b": B})
    again = begun_again(record, program_of(planned({"b": B})))
    found = places(placed(planned({"b": B, "a": A, "c": CITY}), again))
    assert found == {
        "b": ("raw", "p.by-id.log"),
        "a": ("raw#4", "p.by-id.3.log"),
        "c": ("raw#5", "p.by-city.2.log"),
    }


def test_a_record_of_the_first_version_gives_names_by_content():
    outputs = {"a": A, "b": B}
    first = replace(program_of(planned(outputs)), version=1, outputs={})
    first = decode_program(encode_program(first))
    assert places(placed(planned({"b": B}), first))["b"] == ("raw#2", "p.by-id.log")
    wider = places(placed(planned({"a": WIDE, "b": B}), first))
    assert wider == places(planned(outputs))
    program = program_of(placed(planned({"a": A, "b": C}), first))
    (change,) = changes(first, program)
    assert change.outputs == ("b",)
    assert changes(without_outputs(first, program, ["b"]), program) == []


def test_streams_of_one_operator_are_in_one_log():
    def joining(outputs: dict[str, Rows], *joined: str) -> Program:
        program = program_of(planned(outputs))
        names = sorted(name for each in joined for name in program.outputs[each])
        return replace(
            program,
            outputs={**program.outputs, "joined": names},
            reads={**program.reads, "joined": ["id"]},
        )

    before = joining({"a": A, "b": B, "c": CITY}, "a", "b")
    same = placement("p", joining({"b": B, "c": CITY, "a": A}, "a", "b"), before)
    assert {each.log for each in same.values()} == {"p.by-id.log", "p.by-city.log", "p.by-v.log"}
    after = joining({"a": A, "b": C, "c": CITY}, "a", "b")
    assert placement("p", after, before) == {
        ("raw", "a"): ("raw", "p.by-id.log"),
        ("raw", "joined"): ("raw#4", "p.by-id.2.log"),
        ("raw#2", "b"): ("raw#5", "p.by-id.2.log"),
        ("raw#2", "joined"): ("raw#5", "p.by-id.2.log"),
        ("raw#3", "c"): ("raw#3", "p.by-city.log"),
        ("other", "keeps-the-source"): ("other", "p.by-v.log"),
    }


def test_a_new_log_keeps_off_the_topics_that_are_taken():
    record = recorded({"a": A})
    found = places(placed(planned({"a": A, "by-id.2.log": A, "b": B}), record))
    assert found["b"] == ("raw#2", "p.by-id.3.log")


@pytest.mark.parametrize("seed", range(20))
def test_any_deployments_give_streams_without_gaps(seed):
    """A stream begins with its log, ends once, and keeps its name as long as its output stays.

    All its rows have the columns that its outputs read.
    """
    draw = random.Random(seed)
    kinds = [A, B, C, CITY, Rows("city", 1), WIDE, READS, Rows(other=True)]
    outputs: dict[str, Rows] = {"a": draw.choice(kinds)}
    compiled = planned(outputs)
    record, before = program_of(compiled), places(compiled)
    ended: set[str] = set()
    whole = {
        name: set(stream.columns)
        for log in record.logs.values()
        for name, stream in log.streams.items()
    }
    written = {log: set(each.streams) for log, each in record.logs.items()}
    for _ in range(6):
        names = draw.sample("abcde", draw.randint(1, 5))
        earlier = outputs
        outputs = {
            name: outputs[name] if name in outputs and draw.random() < 0.6 else draw.choice(kinds)
            for name in names
        }
        compiled = planned(outputs)
        plan = placed(compiled, record)
        program = program_of(plan)
        refused = {output for change in changes(record, program) for output in change.outputs}
        assert all(outputs[name] != earlier[name] for name in refused)
        accepted = without_outputs(record, program, refused)
        assert changes(accepted, program) == []
        after = recorded_after(accepted, program)
        found = places(plan)
        assert places(placed(compiled, accepted)) == found
        assert places(placed(compiled, after)) == found
        assert recorded_after(after, program) == after
        assert decode_program(encode_program(after)) == after
        for name in outputs:
            if earlier.get(name) == outputs[name]:
                assert found[name] == before[name]
        streams = [stream.name for log in plan.logs for stream in log.streams]
        assert len(streams) == len(set(streams))
        now = {log.topic: {stream.name for stream in log.streams} for log in plan.logs}
        for log, members in now.items():
            if log in written:
                assert members <= written[log]
                ended |= written[log] - members
            assert not members & ended
        written |= now
        for each_log in plan.logs:
            for stream in each_log.streams:
                whole.setdefault(stream.name, set(stream.columns)).intersection_update(
                    stream.columns
                )
        for each in plan.operators:
            assert each.reads is not None
            assert all(each.reads <= whole[name] for name in each.operator.streams)
        record, before = after, found


def rows_of(outputs: dict[str, int]) -> Plan:
    """Return the plan of a pipeline with outputs of rows, each with its filter."""
    pipeline = Pipeline("p", partitions=2)
    raw = pipeline.source(
        "raw", schema={"at": int, "v": int}, event_time="at", watermark=bounded("2s")
    )
    for name, least in outputs.items():
        raw.filter(col("v") >= least).to(name)
    return pipeline.plan()


def test_streams_without_a_key_are_placed_as_those_with_one():
    first = {"a": 0, "b": 1}
    record = program_of(rows_of(first))
    before = places(placed(rows_of(first), record))
    assert {log for _, log in before.values()} == {"p.unkeyed.log"}
    assert places(placed(rows_of({"b": 1, "a": 0}), record)) == before
    more = places(placed(rows_of({"c": 2, **first}), record))
    assert more["c"] == ("raw#3", "p.unkeyed.2.log")
    assert {name: more[name] for name in first} == before
    (changed,) = changes(record, program_of(placed(rows_of({**first, "b": 5}), record)))
    assert changed.what == "in output b, the choice of rows"
