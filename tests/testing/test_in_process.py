"""Scenarios in this process, and what a mistake in a test is told."""

from dataclasses import replace
from datetime import datetime

import pytest

from tests.support.scenarios import SCENARIOS, module, move
from tidemark import RECORD_TIME, Pipeline, bounded, col, count, every, field, on_close, tumbling
from tidemark import sum as total
from tidemark.errors import ConfigurationError
from tidemark.testing import InProcess, Message, MismatchError


def written(folder, idle_after="3s"):
    file = folder / f"{folder.name}_steps.py"
    file.write_text(module("steps", idle_after))
    return str(file)


@pytest.mark.parametrize(("scenario", "partitions", "idle_after"), SCENARIOS)
def test_scenarios_hold_in_this_process(scenario, partitions, idle_after, tmp_path):
    with InProcess(written(tmp_path, idle_after), raw_partitions=partitions) as run:
        scenario(run)


@pytest.fixture
def run(tmp_path):
    with InProcess(written(tmp_path)) as run:
        yield run


def test_a_pane_that_is_not_there_is_shown_with_those_that_are(run):
    run.send("steps-moves", move("a", 1_000), move("b", 30_000))
    with pytest.raises(MismatchError) as mismatch:
        run.expect_panes("pops", {"player": "a", "pops": 2})
    assert str(mismatch.value).splitlines() == [
        "panes of pops:",
        "  expected: 1",
        '    {"player": "a", "pops": 2}',
        "  found: 1",
        '    {"player": "a", "pops": 1}',
    ]


def test_records_returned_before_do_not_change(run):
    run.send("steps-moves", move("a", 1_000), move("b", 30_000))
    before = run.published("pops")
    run.send("steps-moves", move("b", 90_000))
    assert len(before) == 1
    assert len(run.published("pops")) == 2


def test_panes_that_nobody_expects_are_a_mismatch(run):
    run.send("steps-moves", move("a", 1_000), move("b", 30_000))
    with pytest.raises(MismatchError, match="found: 1"):
        run.expect_panes("pops")


def test_a_sink_holds_every_pane_that_discards_the_rows_before():
    pipeline = Pipeline("parts")
    moves = pipeline.source(
        "parts-moves", schema={"who": str, "at": int}, event_time="at", watermark=bounded("0s")
    ).key_by("who")
    moves.window(
        tumbling("10s"), trigger=on_close(early=every(rows=2)), accumulation="discarding"
    ).aggregate(n=count()).to("parts")
    with InProcess(pipeline) as run:
        run.send("parts-moves", *({"who": "a", "at": at} for at in (1, 2, 3, 4, 5)))
        run.send("parts-moves", {"who": "b", "at": 20_000})
        assert sum(pane["n"] for pane in run.panes("parts")) == 5


def test_a_lost_state_is_noticed(run):
    """The scenarios could not fail if a crash lost nothing: here its changelog is lost too."""
    run.send("steps-moves", move("a", 1_000))
    run.crash("windowing")
    for operators in run._operators.values():
        for operator in operators:
            operator.checkpoints = [replace(c, changes={}) for c in operator.checkpoints]
    run.restart("windowing")
    run.advance("steps-moves", 12_000)
    run.expect_panes("pops")


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda run: run.send("nowhere", move("a", 1)), "no raw topic 'nowhere': steps reads"),
        (lambda run: run.send("steps-moves", move("a", 1), partition=1), "has no partition 1"),
        (lambda run: run.expect_panes("pop"), "no output 'pop': steps has pops"),
        (lambda run: run.crash("sessions"), "no service 'sessions': steps needs ingest, windowing"),
        (lambda run: run.restart("ingest"), r"restart\('ingest'\): the service is running"),
        (lambda run: run.idle("steps-moves", "1s"), "a source is idle after 3000 ms"),
        (
            lambda run: (run.crash("ingest"), run.expect_panes("pops")),
            r"ingest is down, so nothing is complete: restart\(\) it first",
        ),
        (lambda run: run.expect_panes("pops", {"a": 1}, {"b": 1}), "{'a': 1} lacks b"),
    ],
)
def test_a_mistake_is_named(run, mistake, said):
    with pytest.raises(ConfigurationError, match=said):
        mistake(run)


def test_time_that_is_no_column_beside_others_cannot_be_advanced():
    pipeline = Pipeline("alone")
    rows = pipeline.source("t", schema={"at": int}, event_time="at", watermark=bounded("2s"))
    rows.key_by("at").window(tumbling("10s")).aggregate(n=count()).to("out")
    with pytest.raises(ConfigurationError, match="not one column among others"):
        InProcess(pipeline).advance("t", 5)


def test_time_of_records_that_are_not_json_cannot_be_advanced():
    pipeline = Pipeline("lines")
    schema = {"k": str, "at": int}
    rows = pipeline.source(
        "t", schema=schema, format="csv", event_time="at", watermark=bounded("2s")
    )
    rows.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    with (
        InProcess(pipeline) as run,
        pytest.raises(ConfigurationError, match=r"not JSON but csv of k, at.*use send\(\)"),
    ):
        run.advance("t", 5)


def test_a_pipeline_without_a_registry_needs_no_settings(monkeypatch):
    monkeypatch.setenv("KAFKA_ACKS", "1")  # refused by services
    pipeline = Pipeline("lines")
    rows = pipeline.source("t", schema={"k": str}, event_time=RECORD_TIME, watermark=bounded("2s"))
    rows.key_by("k").window(tumbling("10s")).aggregate(n=count()).to("out")
    with InProcess(pipeline) as run:
        assert run.panes("out") == []


def test_a_message_has_key_headers_and_timestamp():
    pipeline = Pipeline("messages")
    header = col("_headers").list.first().struct.field("value")
    rows = pipeline.source("t", schema={"n": int}, event_time=RECORD_TIME, watermark=bounded("2s"))
    rows = rows.with_columns(k=col("_key"), h=header)
    rows.key_by("k", "h").window(tumbling("10s")).aggregate(n=count()).to("out")
    with InProcess(pipeline) as run:
        run.send(
            "t",
            Message({"n": 1}, key="a", headers={"h": "x"}, timestamp_ms=5_000),
            Message(b'{"n": 1}', key=b"a", headers=[("h", b"x")], timestamp_ms=6_000),
            Message(key="a", timestamp_ms=7_000),  # a tombstone
            {"n": 1},  # without a timestamp
            Message({"n": 1}, key="b", headers={"h": "x"}, timestamp_ms=22_000),
        )
        run.expect_panes("out", {"k": "a", "h": "x", "start": 0, "n": 2})
        run.expect_dead_letters({"reason": "event time: missing", "offset": 3})


def test_binary_cloudevents_are_read_from_headers():
    pipeline = Pipeline("events")
    rows = pipeline.source(
        "t",
        schema={"type": str, "time": datetime, "cents": field("data.cents", int)},
        format="cloudevents",
        event_time="time",
        watermark=bounded("2s"),
    )
    rows.key_by("type").window(tumbling("10s")).aggregate(v=total("cents")).to("out")

    def event(time: str, **headers: str) -> Message:
        attributes = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/a", "ce_type": "paid"}
        named = {**attributes, "ce_time": time, "content-type": "application/json", **headers}
        return Message({"cents": 5}, headers=named)

    with InProcess(pipeline) as run:
        run.send("t", event("1970-01-01T00:00:01Z"), event("1970-01-01T00:00:02Z", ce_id="2"))
        run.send("t", event("1970-01-01T00:00:03Z", ce_id=""), event("1970-01-01T00:01:00Z"))
        run.expect_panes("out", {"type": "paid", "v": 10})
        run.expect_dead_letters({"reason": "not a CloudEvent: no attribute 'id'"})
