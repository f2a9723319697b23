"""Pipelines that change, on a real broker: docs/operations.md, "Changing a pipeline"."""

import json
import random
import time
from typing import Any

import pytest

from tests.kafka.support.changes import T, await_expected, deployed, expected, moves, published
from tests.kafka.support.stack import Stack, wait_until
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.generations import Generation, newest_generations
from tidemark.runtime.client.offline_group import delete_records
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset

TWO = {"a": {}, "b": {"size": "5s"}}
CHANGED = {"a": {"size": "20s"}, "b": {"size": "5s"}}


def reset(stack: Stack, **scope: object) -> None:
    Reset(stack.config, stack.admin, Scope(stack.plan, **scope)).run()  # type: ignore[arg-type]


def play(stack: Stack, begin: int, end: int, *operators: str) -> None:
    """Let all services run on new records, until these operators have published what they must."""
    stack.start()
    for at in range(begin, end, 20):
        moves(stack, at, min(at + 20, end))
        time.sleep(0.1)  # in segments of their own
    await_expected(stack, *operators)
    assert set(stack.stop().values()) == {0}


def await_log(stack: Stack, text: str) -> None:
    wait_until(lambda: text in stack.log("windowing"), f"{text!r} in the log")


def test_a_new_output_reads_its_log_while_the_others_go_on(broker):  # A4
    with deployed(broker, "started-anew", {"a": {}}, first=True) as stack:
        play(stack, 0, 100, "a")
    with deployed(broker, "started-anew", TWO) as stack:
        for _ in range(3):
            stack.start("windowing")
            await_log(stack, "was given")
            time.sleep(0.3)
            stack.kill("windowing")
        play(stack, 100, 200, "a", "b")
        stack.start("windowing")  # what it wrote can be restored
        stack.await_partitions()
        moves(stack, 200, 201)
        assert stack.stop() == {"windowing": 0}


def test_an_output_that_changed_stops_alone_and_goes_on_when_it_changes_back(broker):
    with deployed(broker, "back", TWO, first=True) as stack:
        play(stack, 0, 100, "a", "b")
    with deployed(broker, "back", CHANGED) as stack:
        play(stack, 100, 200, "b")
        stack.start("windowing")
        await_log(stack, "operator a has stopped")
        assert "windows 'tumbling(10s)' is now 'tumbling(20s)'" in stack.log("windowing")
        assert "--operator a --bootstrap-server" in stack.log("windowing")
        assert "reset PIPELINE" not in stack.log("windowing")
        stack.kill()
    with deployed(broker, "back", TWO) as stack:
        play(stack, 200, 300, "a", "b")
    with deployed(broker, "back", CHANGED) as stack:
        reset(stack, only=("a",))
        play(stack, 300, 400, "a", "b")
    with deployed(broker, "back", TWO) as stack:
        reset(stack, only=("a",), delete_results=True)
        play(stack, 400, 500, "a", "b")


def test_an_output_that_was_renamed_is_built_from_the_log_and_the_old_one_can_return(broker):  # A4
    with deployed(broker, "renamed", {"a": {}}, first=True) as stack:
        play(stack, 0, 100, "a")
    with deployed(broker, "renamed", {"c": {}}) as stack:
        play(stack, 100, 200, "c")
    with deployed(broker, "renamed", {"a": {}, "c": {}}) as stack:
        play(stack, 200, 300, "a", "c")


def test_a_new_column_can_be_aggregated_by_a_new_output(broker):  # A5, A6b
    wider = {"a": {}, "b": {"sums": ["weight"]}}
    with deployed(broker, "wider", {"a": {}}, first=True) as stack:
        play(stack, 0, 100, "a")
    with deployed(broker, "wider", wider, columns={"weight": "int"}) as stack:
        stack.start()
        moves(stack, 100, 200, weight=2)
        await_expected(stack, "a", "b")
        assert set(stack.stop().values()) == {0}
        reset(stack, only=("b",))
        play(stack, 200, 300, "a", "b")
        reset(stack, only=("b",), to="latest")
        before = newest(stack, "b")
        stack.start()
        moves(stack, 300, 360, weight=2)
        wait_until(lambda: sum(map(len, published(stack, "b").values())) > 0, "new panes")
        await_expected(stack, "a")
        assert set(stack.stop().values()) == {0}
        assert newest(stack, "b").number == before.number
        starts = [json.loads(v)["start"] for each in published(stack, "b").values() for v in each]
        assert min(starts) >= T + 300_000 - 2_000  # windows that lack rows are not published


def test_results_that_were_deleted_stop_their_operator_until_it_is_reset(broker):  # A7
    with deployed(broker, "deleted", TWO, first=True) as stack:
        play(stack, 0, 100, "a", "b")
        stack.admin.delete_topics(["deleted.a"])["deleted.a"].result()
        wait_until(lambda: "deleted.a" not in partition_counts(stack.admin), "the deletion")
        stack.start()
        moves(stack, 100, 200)
        await_expected(stack, "b")
        await_log(stack, "operator a has stopped")
        assert "topic deleted.a was deleted" in stack.log("windowing")
        assert set(stack.stop().values()) == {0}
        assert stack.results("a") == []
        reset(stack, only=("a",))
        play(stack, 200, 300, "a", "b")


def test_results_that_are_deleted_while_a_service_runs_end_it(broker):  # A7
    with deployed(broker, "deleted-results", TWO, first=True) as stack:
        stack.start()
        moves(stack, 0, 100)
        await_expected(stack, "a", "b")
        stack.admin.delete_topics(["deleted-results.a"])["deleted-results.a"].result()
        moves(stack, 100, 200)
        assert stack.process("windowing").wait() in (1, 2)
        stack.kill("windowing")
        stack.start("windowing")
        await_log(stack, "topic deleted-results.a was deleted")
        await_expected(stack, "b")
        assert set(stack.stop().values()) == {0}


@pytest.mark.long
def test_a_deleted_changelog_stops_its_operator_alone(broker):
    with deployed(broker, "unlogged", TWO, first=True) as stack:
        play(stack, 0, 100, "a", "b")
        topic = "unlogged.a.changelog"
        stack.admin.delete_topics([topic])[topic].result()
        wait_until(lambda: topic not in partition_counts(stack.admin), "the deletion")
        play(stack, 100, 200, "b")
        stack.start("windowing")
        await_log(stack, "the changelog of operator 'a' is empty")
        stack.kill()
        reset(stack, only=("a",))
        play(stack, 200, 300, "a", "b")


def test_a_service_of_which_no_operator_works_ends_with_status_2(broker):
    with deployed(broker, "none", {"a": {}}, first=True) as stack:
        play(stack, 0, 100, "a")
    with deployed(broker, "none", {"a": {"size": "20s"}}) as stack:
        stack.start("windowing")
        assert stack.process("windowing").wait() == 2
        assert "operator a has stopped" in stack.log("windowing")


def test_a_reset_that_cannot_work_changes_nothing(broker):  # A6b
    texts = {"a": {}, "b": {"sums": ["weight"]}}
    with deployed(broker, "typed", texts, first=True, columns={"weight": "float"}) as stack:
        stack.start()
        moves(stack, 0, 100, weight=1.5)
        await_expected(stack, "a", "b")
        assert set(stack.stop().values()) == {0}
    with deployed(broker, "typed", texts, columns={"weight": "int"}) as stack:
        before = newest(stack, "b")
        with pytest.raises(ConfigurationError, match="'tidemark reset PIPELINE --delete-results'"):
            reset(stack, only=("b",), delete_results=True)
        assert newest(stack, "b") == before
        reset(stack, delete_results=True)  # the advised command
        play(stack, 100, 200, "a", "b")


def test_windows_that_began_before_the_log_are_not_published(broker):  # A2, A3
    with deployed(broker, "cut", {"a": {}}, first=True) as stack:
        play(stack, 0, 200, "a")
        log = stack.plan.logs[0].topic
        ends = offsets(stack.admin, [Partition(log, n) for n in (0, 1)], LATEST)
        delete_records(stack.admin, {at: end // 2 for at, end in ends.items()})
    with deployed(broker, "cut", {"a": {}, "b": {"size": "7s"}}) as stack:
        with pytest.raises(ConfigurationError, match="cannot make their results again"):
            reset(stack, only=("b",), delete_results=True)
        stack.start()
        moves(stack, 200, 300)
        await_log(stack, "operator b on cut.by-player.log/0: its log lacks rows")
        wait_until(lambda: last_start(stack, "b") >= T + 280_000, "new panes")
        assert set(stack.stop().values()) == {0}
        from_log = sum(map(len, expected(stack, "b").values()))
        found = [json.loads(v) for each in published(stack, "b").values() for v in each]
        lost_ms = newest(stack, "b").lost_until_ms or 0
        assert T + 60_000 < lost_ms < min(pane["start"] for pane in found)
        assert 20 < len(found) <= from_log
        for pane in found:
            begin, end = ((pane[name] - T) // 1_000 for name in ("start", "end"))
            player = int(pane["player"][1:])
            assert pane["n"] == sum(n % 3 == player for n in range(begin, end))


def last_start(stack: Stack, operator: str) -> int:
    panes = [json.loads(v) for each in published(stack, operator).values() for v in each]
    return max((pane["start"] for pane in panes), default=0)


def newest(stack: Stack, operator: str, partition: int = 0) -> Generation:
    found = newest_generations(stack.config, stack.admin, stack.plan.generations)
    return found[operator, partition]


def test_a_new_or_changed_key_is_built_from_the_raw_topic(broker):  # A2, A3
    other = {"size": "7s", "key": ["score"]}
    with deployed(broker, "keys", TWO, first=True) as stack:
        play(stack, 0, 100, "a", "b")
    with deployed(broker, "keys", {**TWO, "c": other}) as stack:
        play(stack, 100, 200, "a", "b", "c")
    with deployed(broker, "keys", {"a": {}, "b": other, "c": other}) as stack:
        play(stack, 200, 300, "a", "c")
        stack.start("windowing")
        await_log(stack, "operator b has stopped")
        assert "key 'player: String' is now 'score: Int64'" in stack.log("windowing")
        stack.kill()
        reset(stack, only=("b",), delete_results=True)  # the advised command
        play(stack, 300, 400, "a", "b", "c")
        for output in ("b", "c"):
            found = [json.loads(v) for each in published(stack, output).values() for v in each]
            assert sorted(pane["score"] for pane in found) == list(range(len(found)))
            assert len(found) > 380


VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a": ({}, {"size": "20s"}),
    "b": ({"size": "5s"}, {"size": "5s", "sums": ["score"]}),
    "c": ({"gap": "3s"}, {"gap": "1s"}),
}
"""Of each output, two versions whose states do not fit each other; one is of another service."""


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_any_changes_end_in_the_results_of_the_last_program(broker, seed):
    """Deployments that add, remove and change outputs, with kills and resets in between.

    This is about operators: each publishes what its log says, whatever was deployed before.  Its
    oracle runs the operator over the log.  tests/chaos/changes is about whole pipelines: refusals,
    advice, logs and tables, judged by raw records without the product.
    """
    draw, name = random.Random(seed), f"any{seed}"
    moved = 0
    for step in range(6):
        last = step == 5
        names = list(VARIANTS) if last else draw.sample(list(VARIANTS), draw.randint(1, 3))
        outputs = {each: draw.choice(VARIANTS[each]) for each in sorted(names)}
        with deployed(broker, name, outputs, first=step == 0) as stack:
            for operator in outputs:
                if last or draw.random() < 0.4:
                    reset(stack, only=(operator,), delete_results=draw.random() < 0.5)
            keyed = stack.plan.keyed_services()
            stack.start()
            for _ in range(3):
                moves(stack, moved, moved + 20)
                moved += 20
                time.sleep(draw.random())
                stack.kill(*keyed)
                stack.start(*keyed)
            if last:
                moves(stack, moved, moved + 20)
                await_expected(stack, *outputs)
            else:
                time.sleep(2 * draw.random())
