"""Replays of chains: recorded rows of stages give the results of the services, to the bit."""

import json
from typing import Any

import polars as pl
import pytest

from tests.kafka.pipelines.chains import chained
from tests.kafka.support.chains import (
    OUTPUTS,
    await_equal,
    in_parts,
    in_process,
    moves,
    panes,
    produced,
)
from tests.kafka.support.stack import Stack
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.plan.physical import Plan
from tidemark.runtime.client.recorded_program import replayed_plan
from tidemark.spark.replay.jobs import ReplayInput, diff, replay
from tidemark.spark.replay.replay import with_operators

VALUES = moves(seed=7, count=300)
OPTIONS: dict[str, Any] = {"partitions": 2, "mixed": True}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def chain(broker):
    """A chain of three stages over two partitions that ran live, with a kill."""
    with Stack(broker, "chains-replayed", 1, chained, OPTIONS) as stack:
        stack.start()
        parts = list(in_parts(VALUES, 3))
        produced(stack, parts[0])
        stack.await_partitions()
        stack.kill("windowing")
        produced(stack, parts[1])
        stack.start("windowing")
        produced(stack, parts[2])
        await_equal(stack, in_process(OPTIONS, VALUES))
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        yield stack


@pytest.mark.parametrize(("slices", "from_raw"), [(3, False), (None, True)])
def test_replays_of_a_chain_equal_live_stage_by_stage(chain, sessions, slices, from_raw):
    result = diff(chain.config, chain.plan, sessions, slices, from_raw=from_raw)
    assert result.equal, "\n".join(diff_lines(result))
    found = {topic.topic: topic for topic in result.topics}
    for derived in chain.plan.derived:
        for log in chain.plan.fed_by(derived):
            rows = found[f"rows of {derived.operator} in {log.topic}"]
            assert rows.left == rows.right > 5
    names = [f"{chain.name}.{each}" for each in OUTPUTS]
    assert all(found[name].left == found[name].right > 0 for name in names)


def test_a_replay_to_topics_writes_what_a_chain_wrote(chain, sessions):
    replay(chain.config, chain.plan, ReplayInput(), "topics", sessions, 2)
    for each in chain.plan.operators:
        for live in each.topics:
            assert sorted(chain.committed(f"{live}.replay")) == sorted(chain.committed(live))


def changed(stack: Stack, **options: Any) -> Plan:
    plan = chained.build(stack.name, **OPTIONS, **options).plan()
    return replayed_plan(stack.config, stack.admin, plan, from_raw=False)


def test_a_difference_names_stage_key_and_window_and_shows_once(chain, sessions):
    plan = changed(chain, least=3)
    result = diff(chain.config, plan, sessions, 2)
    stage = plan.derived[0].operator
    different = [topic for topic in result.topics if topic.different]
    assert [each.topic for each in different] == [f"rows of {stage} in {chain.name}.by-player.log"]
    for each in result.differences:
        player, end = json.loads(each.key)
        (row,) = (json.loads(message.value) for message in each.only_left)
        assert (row["player"], row["@event_time"] + 1, row["n"]) == (player, end, 2)
        assert each.only_right == ()


@pytest.mark.parametrize(
    ("options", "outputs", "from_raw"),
    [
        ({"least": 3}, OUTPUTS, False),
        ({"size": "20s"}, ("counts", "sums", "runs", "totals"), False),
        ({"least": 4}, ("totals", "mixed"), True),
    ],
)
def test_changed_stages_run_again(chain, sessions, tmp_path, options, outputs, from_raw):
    """With other windows all stages are new, and so are the logs that they feed."""
    whole = changed(chain, **options)
    plan = with_operators(whole, list(outputs))
    place, replay_input = f"parquet:{tmp_path / 'results'}", ReplayInput(from_raw=from_raw)
    replay(chain.config, plan, replay_input, place, sessions, 2, whole=whole)
    expected = in_process({**OPTIONS, **options}, VALUES)
    for name in outputs:
        folder = tmp_path / "results" / name
        read = pl.read_parquet(folder / "panes" / "*.parquet")
        assert panes(read.sort("revision").to_dicts()) == expected[name]
        assert (folder / "late").exists() == (name in ("counts", "mixed"))
