"""A table says what its topic says, after resets, changed windows and deleted topics (A1).

``Table.await_topic`` compares with a reference that reads topics and generations by itself.
"""

import json
from typing import Any

import pytest

from tests.kafka.pipelines import changing
from tests.kafka.pipelines.pops import build
from tests.kafka.support.stack import Stack, move, wait_until
from tests.kafka.support.tables import Keyed, Table
from tidemark.plan.topics import own_topics
from tidemark.runtime.client import topics
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset
from tidemark.sinks.databases.sql import POSITIONS

T = 1_700_000_000_000


def moves(begin: int, end: int):
    for n in range(begin, end):
        yield 0, None, move(f"p{n % 7}", T + n * 200, n)


def reset(stack: Stack, **scope: object) -> None:
    """Start afresh with the pipeline as the environment makes it."""
    plan = build(stack.name).plan()
    Reset(stack.config, stack.admin, Scope(plan, **scope)).run()  # type: ignore[arg-type]


def starts(table: Table) -> set[int]:
    """Return the sizes of windows in a table, in seconds."""
    asked = f"SELECT DISTINCT unixepoch(window_end) - unixepoch(window_start) FROM {table.name}"
    return {size for (size,) in table.run(asked)}


@pytest.mark.parametrize("kills", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_table_is_its_topic_after_resets_and_changed_windows(
    broker, tmp_path, monkeypatch, kills
):
    path = tmp_path / "results.db"
    name = "renewed" if not kills else "renewed-by-kills"
    pops, sessions = Table(path, "pops", "pops"), Table(path, "sessions", "moves")

    with Stack(broker, name, TIDEMARK_SINK=f"sqlite:{path}") as stack:

        def changed(what: str, *, size: str = "10s", filled: bool = True, **scope: Any) -> None:
            """Reset while two sinks run, compare, and start services again."""
            stack.stop("windowing")
            monkeypatch.setenv("TEST_WINDOW", size)
            reset(stack, only=("pops",), **scope)
            if kills:
                for _ in range(3):
                    stack.kill("sink", slot="0")
                    stack.start("sink")
            pops.await_topic(stack, f"after {what}, before a new pane", filled=False)
            stack.start("windowing", TEST_WINDOW=size)
            if filled:
                pops.await_topic(stack, f"after {what}")
                wait_until(lambda: starts(pops) == {int(size[:-1])}, "windows of one size")

        stack.start(*stack.plan.services(), "sink")
        stack.start("sink", slot="1")
        stack.produce([*moves(0, 500), (0, None, move("end", T + 3_600_000))])
        pops.await_topic(stack, "at first")
        sessions.await_topic(stack, "at first")
        changed("a changed window", size="20s")
        changed("the window before")
        changed("a reset with deleted results", delete_results=True)
        changed("a reset to the end", filled=False, to="latest")
        stack.produce([(0, None, move("end", T + 7_200_000 + n * 10_000)) for n in range(3)])
        pops.await_topic(stack, "of what came after the end")
        sessions.await_topic(stack, "of another operator")
        assert " ERROR " not in stack.log("sink", "0") + stack.log("sink", "1")
        assert set(stack.stop().values()) == {0}


def test_a_table_whose_topic_rows_or_positions_are_gone_is_loaded_again(broker, tmp_path):
    path = tmp_path / "results.db"
    pops = Table(path, "pops", "pops")
    with Stack(broker, "emptied", TIDEMARK_SINK=f"sqlite:{path}") as stack:
        stack.start(*stack.plan.services(), "sink")
        stack.produce([*moves(0, 300), (0, None, move("end", T + 3_600_000))])
        pops.await_topic(stack, "at first")

        assert stack.stop("sink") == {"sink": 0}
        pops.run(f"DELETE FROM {POSITIONS}")
        pops.run("DELETE FROM pops WHERE player < 'p3'")
        stack.start("sink")
        pops.await_topic(stack, "without positions")

        for view in ("pops_latest", "pops_final"):
            pops.run(f"DROP VIEW {view}")
        pops.run("DROP TABLE pops")  # while the sink runs
        stack.produce([*moves(20_000, 20_100), (0, None, move("end", T + 7_200_000))])
        pops.await_topic(stack, "dropped")

        stack.stop(*stack.plan.services())
        topic = f"{stack.name}.pops"
        stack.admin.delete_topics([topic])[topic].result()
        wait_until(lambda: topic not in topics.partition_counts(stack.admin), "the deletion")
        topics.ensure(stack.admin, own_topics(stack.plan), -1)
        reset(stack, only=("pops",))
        stack.start(*stack.plan.services())
        if stack.process("sink").poll() is not None:  # it has met the topic while it was gone
            stack.start("sink")
        pops.await_topic(stack, "created again")
        assert set(stack.stop().values()) == {0}


KEYS = (["player"], ["player", "score"])


def keyed(key: list[str]) -> dict[str, Any]:
    return {"outputs": {"a": {"key": key}, "b": {}}}


def start_as(stack: Stack, options: dict[str, Any], *services: str) -> None:
    stack.start(*services, TEST_OPTIONS=json.dumps(options))


def test_a_table_follows_a_changed_key_and_stops_while_the_sink_does_not_know_it(broker, tmp_path):
    path = tmp_path / "results.db"
    before, after = map(keyed, KEYS)
    counts = {key: Keyed(path, "a", key) for key in map(tuple, KEYS)}
    others = Keyed(path, "b", ("player",))
    with Stack(
        broker, "other-keys", module=changing, options=before, TIDEMARK_SINK=f"sqlite:{path}"
    ) as stack:
        stack.start("ingest", "windowing", "sink")
        stack.produce([*moves(0, 300), (0, None, move("end", T + 3_600_000))])
        counts["player",].await_topic(stack)
        for round_, options in enumerate((after, before, after)):
            key = tuple(options["outputs"]["a"]["key"])
            stack.stop("ingest", "windowing")
            start_as(stack, options, "ingest", "windowing")
            wait_until(lambda: "operator a has stopped" in stack.log("windowing"), "the advice")
            stack.stop("windowing")
            plan = changing.build(stack.name, **options).plan()
            Reset(stack.config, stack.admin, Scope(plan, only=("a",))).run()
            start_as(stack, options, "windowing")
            wait_until(lambda: "table a has stopped: the present" in stack.log("sink"), "the stop")
            later = T + 3_600_000 + (round_ + 1) * 60_000
            stack.produce([(0, None, move("end", later))])
            others.await_topic(stack)
            assert stack.stop("sink") == {"sink": 0}
            start_as(stack, options, "sink")
            counts[key].await_topic(stack)
        assert stack.results("dead-letters") == []
        assert set(stack.stop().values()) == {0}
