"""Streams keep their names, and new ones are whole: docs/operations.md, "Streams and logs"."""

import json
import re
from typing import Any

import pytest

from tests.kafka.support.changes import (
    WEIGHT,
    Outputs,
    T,
    await_whole,
    deployed,
    from_raw,
    moves,
    published,
)
from tests.kafka.support.stack import Stack, wait_until
from tidemark.commands.cli import main
from tidemark.commands.deployment import deployment_lines
from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.offline_group import delete_records
from tidemark.runtime.client.recorded_program import replayed_plan
from tidemark.runtime.keyed.fresh_start import Scope, partitions_of
from tidemark.runtime.keyed.reset import Reset

A, B, C = {}, {"least": 10, "size": "5s"}, {"least": 30}  # type: ignore[var-annotated]
ABC: Outputs = {"a": A, "b": B, "c": C}


def play(stack: Stack, begin: int, end: int, outputs: Outputs, *first: str) -> None:
    """Run all services on moves, until outputs are whole; no operator may stop.

    ``first``: services that have partitions before the others start.
    """
    if first:
        stack.start(*first)
        stack.await_partitions()
    stack.start(*(each for each in stack.plan.services() if each not in first))
    moves(stack, begin, end, weight=WEIGHT)
    await_whole(stack, end, outputs)
    assert set(stack.stop().values()) == {0}
    assert "has stopped" not in stack.log("windowing")


def begun(stack: Stack) -> dict[str, list[Any]]:
    """Return the results of each output so far, by partition."""
    return {each.name: sorted(published(stack, each.name).items()) for each in stack.plan.operators}


def assert_went_on(before: dict[str, list[Any]], stack: Stack, *outputs: str) -> None:
    """Require that outputs have kept their results, byte for byte."""
    after = begun(stack)
    for output in outputs:
        for (number, values), (same, now) in zip(before[output], after[output], strict=True):
            assert number == same
            assert now[: len(values)] == values


def fates(stack: Stack) -> dict[str, str]:
    """Return what ``tidemark plan`` says of each output, and of ingest."""
    lines = deployment_lines(stack.config, stack.admin, stack.plan, "P")
    found = (re.fullmatch(r"output (\w+) (.*)", line) for line in lines[1:])
    return {"ingest": lines[0], **{each[1]: each[2] for each in found if each}}


def run(monkeypatch: pytest.MonkeyPatch, stack: Stack, command: str) -> None:
    """Run a command of the product as it was advised, without a question."""
    monkeypatch.setattr("tidemark.commands.cli._plan", lambda _: stack.compiled)
    monkeypatch.setattr("sys.argv", [*command.split(), "--yes"])
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", stack.config.bootstrap_servers)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0


def test_outputs_that_are_removed_reordered_or_rekeyed_leave_the_others_alone(broker):
    name = "orderly"
    with deployed(broker, name, ABC, first=True) as stack:
        play(stack, 0, 100, ABC)
        before = begun(stack)
    with deployed(broker, name, {"b": B, "c": C}) as stack:  # the first is removed
        play(stack, 100, 200, {"b": B, "c": C})
        assert_went_on(before, stack, "b", "c")
        before |= begun(stack)
    with deployed(broker, name, {"c": C, "b": B}) as stack:  # another order
        went_on = "ingest goes on with the logs that are there"
        assert fates(stack) == {"ingest": went_on, "b": "goes on", "c": "goes on"}
        play(stack, 200, 300, {"b": B, "c": C})
        assert_went_on(before, stack, "b", "c")
        before |= begun(stack)
    rekeyed: Outputs = {"c": {"key": ["score"], "least": 30}, "b": B}
    with deployed(broker, name, rekeyed) as stack:  # another key of the first
        stack.start()
        moves(stack, 300, 400)
        await_whole(stack, 400, {"b": B})
        assert set(stack.stop().values()) == {0}
        assert re.findall(r"operator (\w+) has stopped", stack.log("windowing"))[0] == "c"
        assert_went_on(before, stack, "b")
        Reset(stack.config, stack.admin, Scope(stack.compiled, only=("c",))).run()
        play(stack, 400, 450, rekeyed)


def test_a_new_output_with_another_filter_is_whole_from_the_first_raw_record(broker):
    name = "filtered"
    with deployed(broker, name, {"a": A}, first=True) as stack:
        play(stack, 0, 100, {"a": A})
        before = begun(stack)
    with deployed(broker, name, {"c": C, "b": B, "a": A}) as stack:
        new = "is built from log filtered.by-player.2.log, which is new"
        found = fates(stack)
        assert "log filtered.by-player.2.log is new" in found.pop("ingest")
        assert found == {"a": "goes on", "b": new, "c": new}
        play(stack, 100, 200, ABC, "windowing")  # it starts before the program is recorded
        assert {each.name: each.log for each in stack.plan.operators} == {
            "a": "filtered.by-player.log",
            "b": "filtered.by-player.2.log",
            "c": "filtered.by-player.2.log",
        }
        assert_went_on(before, stack, "a")


def test_an_output_that_was_away_while_its_log_went_on_is_whole_again(broker):
    name = "away"
    with deployed(broker, name, {"b": B, "a": A}, first=True) as stack:
        play(stack, 0, 100, {"a": A, "b": B})
        before = begun(stack)
    with deployed(broker, name, {"a": A}) as stack:
        play(stack, 100, 200, {"a": A})
    with deployed(broker, name, {"b": B, "a": A}) as stack:
        assert fates(stack)["b"].startswith("stops: stream 'away-moves' is now 'away-moves#3'. ")
        stack.start()
        moves(stack, 200, 300)
        await_whole(stack, 300, {"a": A})
        assert set(stack.stop().values()) == {0}
        assert "operator b has stopped" in stack.log("windowing")
        assert "operator a has stopped" not in stack.log("windowing")
        Reset(stack.config, stack.admin, Scope(stack.compiled, only=("b",))).run()
        play(stack, 300, 400, {"a": A, "b": B})
        assert_went_on(before, stack, "a")


def test_a_changed_filter_is_refused_and_one_command_accepts_it_for_its_outputs(
    broker, monkeypatch
):
    name = "accepted"
    first: Outputs = {"a": A, "b": B, "d": {**B, "size": "20s"}}
    changed: Outputs = {"b": {**B, "least": 20}, "d": {**B, "least": 20}, "a": A}
    with deployed(broker, name, first, first=True) as stack:
        play(stack, 0, 100, first)
        before = begun(stack)
        logs = partitions_of(stack.admin, [log.topic for log in stack.plan.logs])
        ends = offsets(stack.admin, logs, LATEST)
    with deployed(broker, name, changed) as stack:
        found = fates(stack)
        assert found["ingest"].startswith("ingest ends with 2: the pipeline has changed: in output")
        assert found["a"] == "waits for ingest"
        assert found["b"].startswith("is refused by ingest: 'tidemark reset P --operator b --boot")
        stack.start("ingest")
        assert stack.process("ingest").wait() == 2
        stack.kill("ingest")
        (line,) = [line for line in stack.log("ingest").splitlines() if "ERROR" in line]
        assert "in outputs b, d, the choice of rows was filter" in line
        assert offsets(stack.admin, logs, LATEST) == ends
    with deployed(broker, name, first) as stack:  # going back works
        play(stack, 100, 200, first)
        before |= begun(stack)
    with deployed(broker, name, changed) as stack:
        stack.start("ingest")
        assert stack.process("ingest").wait() == 2
        advice = re.findall(r"'(tidemark reset [^']*)'", stack.log("ingest"))[-1]
        assert "--operator b --operator d" in advice
        with pytest.raises(ConfigurationError, match="no operator"):
            Scope(stack.compiled, only=("x",))
        stack.kill("ingest")
        run(monkeypatch, stack, advice)
        play(stack, 200, 300, changed)
        assert_went_on(before, stack, "a")


def test_an_accepted_change_that_is_undone_needs_no_second_reset(broker, monkeypatch):
    name = "undone"
    first: Outputs = {"a": A, "b": B}
    changed: Outputs = {"a": A, "b": {**B, "least": 20}}
    with deployed(broker, name, first, first=True) as stack:
        play(stack, 0, 100, first)
        before = begun(stack)
    with deployed(broker, name, changed) as stack:
        Reset(stack.config, stack.admin, Scope(stack.compiled, only=("b",))).run()
    with deployed(broker, name, first) as stack:
        assert fates(stack)["b"] == "is built from log undone.by-player.log"
        play(stack, 100, 200, first)
        assert_went_on(before, stack, "a")
        assert {each.log for each in stack.plan.operators} == {"undone.by-player.log"}
        before = begun(stack)
        stack.start("windowing")  # what it wrote can be restored
        stack.await_partitions()
        assert stack.stop() == {"windowing": 0}
    with deployed(broker, name, first) as stack:
        play(stack, 200, 300, first)
        assert_went_on(before, stack, "a", "b")


def test_a_new_log_withholds_windows_that_may_have_rows_of_lost_records(broker):
    name = "headless"
    with deployed(broker, name, {"a": A}, first=True) as stack:
        play(stack, 0, 100, {"a": A})
        delete_records(stack.admin, {Partition(f"{name}-moves", 0): 40})
    with deployed(broker, name, {"a": A, "b": B}) as stack:
        stack.start()
        moves(stack, 100, 200)
        last_lost_ms = T + 49_000 + 2_000  # the largest of ten records, and the delay
        whole = {at: n for at, n in from_raw(B, 200).items() if at[1] > last_lost_ms}

        def equal() -> bool:
            panes = [json.loads(v) for each in published(stack, "b").values() for v in each]
            found = {(pane["player"], pane["start"]): pane["n"] for pane in panes}
            return len(found) == len(panes) and found == whole

        wait_until(equal, "the whole windows")
        await_whole(stack, 200, {"a": A})
        assert set(stack.stop().values()) == {0}
        assert "log headless.by-player.2.log begins with offset 40" in stack.log("ingest")
        assert "its log lacks rows with event times up to" in stack.log("windowing")


def test_outputs_on_a_column_that_their_stream_gained_are_built_from_raw(broker, monkeypatch):
    name, columns = "gaining", {"weight": "int"}
    with deployed(broker, name, {"a": A}, first=True) as stack:
        play(stack, 0, 100, {"a": A})
    with deployed(broker, name, {"a": A}, columns=columns) as stack:  # read by no output
        assert fates(stack)["a"] == "goes on"
        play(stack, 100, 200, {"a": A})
        before = begun(stack)
    summed: Outputs = {"a": {"sums": ["weight"]}}
    with deployed(broker, name, summed, columns=columns) as stack:
        with pytest.raises(StateError, match="column weight was not in all rows of its log"):
            replayed_plan(stack.config, stack.admin, stack.compiled, from_raw=False)
        replayed_plan(stack.config, stack.admin, stack.compiled, from_raw=True)
        stack.start("ingest")
        assert stack.process("ingest").wait() == 2
        stack.kill("ingest")
        assert "in output a, the column weight was not in all rows" in stack.log("ingest")
        advice = re.findall(r"'(tidemark reset [^']*)'", stack.log("ingest"))[-1]
    with_b: Outputs = {"a": A, "b": {"sums": ["weight"]}}
    with deployed(broker, name, with_b, columns=columns) as stack:
        found = fates(stack)
        assert found["a"] == "goes on"
        assert found["b"] == "is built from log gaining.by-player.2.log, which is new"
        play(stack, 200, 300, with_b)
        assert_went_on(before, stack, "a")
        before = begun(stack)
    with deployed(broker, name, {**with_b, **summed}, columns=columns) as stack:
        run(monkeypatch, stack, advice)
        play(stack, 300, 400, {**with_b, **summed})
        assert {each.log for each in stack.plan.operators} == {"gaining.by-player.2.log"}
        assert_went_on(before, stack, "b")


def test_a_reset_of_all_puts_all_streams_of_a_key_into_one_log_again(broker):
    name = "one-again"
    with deployed(broker, name, {"a": A}, first=True) as stack:
        play(stack, 0, 100, {"a": A})
    with deployed(broker, name, {"b": B, "a": A}) as stack:
        play(stack, 100, 200, {"a": A, "b": B})
        Reset(stack.config, stack.admin, Scope(stack.compiled)).run()
        second = partitions_of(stack.admin, [f"{name}.by-player.2.log"])
        assert offsets(stack.admin, second, EARLIEST) == offsets(stack.admin, second, LATEST)
    with deployed(broker, name, {"b": B, "a": A}) as stack:
        assert [log.topic for log in stack.plan.logs] == [f"{name}.by-player.log"]
        play(stack, 200, 300, {"a": A, "b": B})
    with deployed(broker, name, {"c": C, "b": B, "a": A}) as stack:
        assert stack.plan.logs[1].topic == f"{name}.by-player.3.log"
        play(stack, 300, 400, ABC)
