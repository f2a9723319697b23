"""Chains that change between deployments: docs/operations.md, "Changing a pipeline"."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.plan.deployments import deployed
from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark import sum as total
from tidemark.plan.changes import chain_changes, changes
from tidemark.plan.physical import Plan
from tidemark.plan.placement import placed
from tidemark.plan.program import Program, decode_program, encode_program, program_of
from tidemark.runtime.client.recorded_program import refusal


class Reader(NamedTuple):
    """An output over counts of windows: the length of these, and the filter and key of its rows."""

    name: str
    counted: str = "1m"
    least: int = 0
    key: tuple[str, ...] = ()


def planned(*readers: Reader, least: int = 0) -> Plan:
    """Return the plan of a pipeline; ``least``: of the filter before the counts."""
    pipeline = Pipeline("p", partitions=2)
    raw = pipeline.source(
        "raw", schema={"at": int, "id": str, "v": int}, event_time="at", watermark=bounded("2s")
    )
    keyed = raw.filter(col("v") >= least).key_by("id")
    keyed.window(tumbling("1m")).aggregate(n=count()).to("plain")
    counts = {
        length: keyed.window(tumbling(length)).aggregate(n=count())
        for length in dict.fromkeys(each.counted for each in readers)
    }
    streams = {
        rows: counts[rows.counted].filter(col("n") >= rows.least).key_by(*rows.key)
        for rows in (each._replace(name="") for each in readers)
    }
    for each in readers:
        windows = streams[each._replace(name="")].window(tumbling("1h"))
        windows.aggregate(n=total("n")).to(each.name)
    return pipeline.plan()


def record(*deployments: Sequence[Reader]) -> Program:
    """Return the record after deployments that are accepted."""
    found = program_of(planned(*deployments[0]))
    for readers in deployments[1:]:
        _, found = deployed(found, planned(*readers))
    return decode_program(encode_program(found))


def refused(before: Program, plan: Plan) -> str:
    """Return why a plan is refused, "" if it is not; services say the same as ingest of a chain."""
    program = program_of(placed(plan, before))
    found = changes(before, program)
    assert {*chain_changes(before, program)} <= {*found}
    return refusal(found) if found else ""


TOP, ALL = Reader("top"), Reader("all", key=("id",))


def test_a_chain_keeps_its_names_and_logs_whatever_the_order():
    before = record([TOP, ALL])
    same = placed(planned(TOP, ALL), before)
    assert program_of(same) == program_of(planned(TOP, ALL))
    turned = placed(planned(ALL, TOP), before)
    assert changes(before, program_of(turned)) == []
    known = {stream.name: log.topic for log in turned.logs for stream in log.streams}
    assert len(turned.derived) == 2  # the counts, and the partials of TOP
    for derived in turned.derived:
        assert {*derived.graph.streams} < {*known}
    for operator in turned.operators:
        assert {known[name] for name in operator.operator.streams} == {operator.log}


def test_a_filter_after_a_stage_is_refused_with_the_reset_of_all():
    text = refused(record([TOP]), planned(Reader("top", least=3)))
    assert "in output top.partials-b1adf770, the choice of rows was" in text
    assert "'tidemark reset PIPELINE' starts the pipeline afresh" in text
    assert "--operator" not in text


def test_a_filter_before_a_stage_is_refused_with_the_reset_of_all():
    text = refused(record([TOP]), planned(TOP, least=3))
    assert "the choice of rows was" in text
    assert "'tidemark reset PIPELINE' starts the pipeline afresh" in text


def test_a_stage_that_shall_hand_on_another_stream_is_refused():
    before = record([TOP])
    text = refused(before, planned(TOP, ALL))
    assert "what all reads of operator id.tumbling-1m.n was not handed on" in text
    assert "'tidemark reset PIPELINE' starts the pipeline afresh" in text


def test_another_reader_of_the_same_rows_is_welcome():
    assert refused(record([TOP]), planned(TOP, Reader("second"))) == ""


def test_a_new_stage_hands_on_all_so_its_readers_are_whole():
    assert refused(record([TOP]), planned(TOP, Reader("two", counted="2m"))) == ""
    assert refused(record([TOP]), planned(Reader("top", counted="2m"))) == ""


def test_a_reader_that_comes_back_is_refused_if_its_stage_went_on():
    assert "not handed on" in refused(record([TOP, ALL], [TOP]), planned(TOP, ALL))
    assert refused(record([TOP, ALL], []), planned(TOP, ALL)) == ""
