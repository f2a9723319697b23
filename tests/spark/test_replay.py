"""Live results against replays on Spark, on a real broker."""

import json
import time
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from confluent_kafka import Producer, TopicPartition

from tests.kafka.support.stack import Stack, move
from tests.spark.support.live import RECORDS, Example, caught_up
from tidemark import Pipeline, bounded, col, count, session, tumbling
from tidemark import max as largest
from tidemark.commands.replay_view import diff_lines, folders_lines, replay_lines
from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, offsets
from tidemark.spark.replay.jobs import ReplayInput, diff, diff_folders, replay
from tidemark.spark.work import EventTimeRange


def test_a_replay_of_every_window_kind_equals_live(kinds, sessions):
    result = diff(kinds.config, kinds.plan, sessions, 2)

    assert result.equal, "\n".join(diff_lines(result))
    topics = {topic.topic: topic for topic in result.topics}
    assert all(topics[each.results.topic].left > 0 for each in kinds.plan.operators)
    assert sum(topics[each.port("late").topic].left for each in kinds.plan.operators) > 100
    assert all(topic.left == topic.right for topic in result.topics)


@pytest.mark.parametrize("name", [pytest.param("sensors", marks=pytest.mark.long), "hashtags"])
def test_a_replay_of_the_examples_equals_live(broker, sessions, name):
    with Example(broker, name) as stack:
        stack.play(RECORDS)
        result = diff(stack.config, stack.plan, sessions, None)

    assert result.equal, "\n".join(diff_lines(result))
    assert sum(topic.left for topic in result.topics) > 20


def test_a_replay_to_files_has_every_column_of_live(game, sessions, tmp_path):
    folder = tmp_path / "results"

    result = replay(game.config, game.plan, ReplayInput(), f"parquet:{folder}", sessions, 2)

    pops = game.results("pops-per-minute")
    read = pl.read_parquet(folder / "pops-per-minute" / "panes" / "*.parquet")
    assert sorted(
        map(_shown, read.drop("retracted", "log_partition", "log_offset").to_dicts())
    ) == (sorted(map(_shown, pops)))
    late = pl.read_parquet(folder / "pops-per-minute" / "late" / "*.parquet")
    live_late = game.results("pops-per-minute.late")
    assert sorted(map(_shown, late.drop("log_partition", "log_offset").to_dicts())) == (
        sorted(map(_shown, live_late))
    )
    assert json.loads((folder / "_SUCCESS").read_text())["fingerprint"] == game.plan.fingerprint
    assert f"{len(live_late)} late, {len(pops)} panes" in next(replay_lines(game.plan, result))


def _shown(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def test_a_folder_with_something_in_it_is_left_alone(game, sessions, tmp_path):
    (tmp_path / "mine").write_text("x")

    with pytest.raises(ConfigurationError, match="is not empty"):
        replay(game.config, game.plan, ReplayInput(), f"parquet:{tmp_path}", sessions, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_replay_to_topics_writes_what_live_wrote(game, sessions):
    replay(game.config, game.plan, ReplayInput(), "topics", sessions, 1)

    for each in game.plan.operators:
        for live in each.topics:
            assert sorted(game.committed(f"{live}.replay")) == sorted(game.committed(live))
    with pytest.raises(ConfigurationError, match="holds an earlier replay: delete it first"):
        replay(game.config, game.plan, ReplayInput(), "topics", sessions, 1)


def test_a_replay_of_a_period_has_its_windows_alone(game, sessions, tmp_path):
    every = game.results("pops-per-minute")
    minute = sorted(pane["start"] for pane in every)[len(every) // 2]
    replay_input = ReplayInput(event_times=EventTimeRange(minute, minute + 60_000))

    replay(game.config, game.plan, replay_input, f"parquet:{tmp_path / 'minute'}", sessions, 1)

    read = pl.read_parquet(tmp_path / "minute" / "pops-per-minute" / "panes" / "*.parquet")
    assert set(read["start"]) == {minute}
    assert read.height == sum(pane["start"] == minute for pane in every)


def changed() -> Pipeline:
    """Return the game with another meaning: the score of a minute is its best pop."""
    pipeline = Pipeline("game")
    schema = {"player": str, "at": int, "score": int, "kind": str}
    pops = (
        pipeline.source("moves", schema=schema, event_time="at", watermark=bounded("2s"))
        .filter(col("kind") == "pop")
        .key_by("player")
    )
    pops.window(tumbling("1m"), allowed_lateness="10m").aggregate(
        pops=count(), score=largest("score")
    ).to("pops-per-minute")
    pops.window(session("30s"), allowed_lateness="10m").aggregate(
        moves=count(), best=largest("score")
    ).to("play-sessions")
    return pipeline


def test_a_changed_pipeline_is_caught(game, sessions):
    result = diff(game.config, changed().plan(), sessions, 1)

    assert not result.equal
    differ = {topic.topic for topic in result.topics if topic.different}
    assert differ == {"game.pops-per-minute"}
    first = result.differences[0]
    live, replayed = (json.loads(side[0].value) for side in (first.only_left, first.only_right))
    assert json.loads(first.key) == [live["player"], live["start"]]
    assert live["score"] > replayed["score"]
    assert {**live, "score": 0} == {**replayed, "score": 0}
    lines = list(diff_lines(result))
    assert lines[-1].startswith("likely cause: the pipeline is not the one that made the live")
    assert any(line.startswith("  live    {") for line in lines)


def test_results_of_two_programs_are_compared(game, sessions, tmp_path):
    programs = ("old", game.plan, 1), ("same", game.plan, 2), ("new", changed().plan(), 1)
    for name, plan, slices in programs:
        replay(game.config, plan, ReplayInput(), f"parquet:{tmp_path / name}", sessions, slices)
    old, same, new = (f"parquet:{tmp_path / name}" for name in ("old", "same", "new"))

    equal, different = diff_folders(old, same, sessions), diff_folders(old, new, sessions)

    assert equal.equal
    assert sum(topic.left for topic in equal.topics) > 20
    assert all(topic.left == topic.right for topic in equal.topics)
    assert not different.equal
    assert [topic.topic for topic in different.topics if topic.different] == [
        "pops-per-minute/panes"
    ]
    lines = list(folders_lines(different))
    assert any(line.startswith("  A  {") for line in lines)
    assert lines[-1].startswith("likely cause: they are of two programs")


def test_a_folder_that_holds_no_results_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="no _SUCCESS in it"):
        diff_folders(f"parquet:{tmp_path}", f"parquet:{tmp_path}", _no_spark)


@pytest.fixture(scope="module")
def damaged(broker) -> Iterator[Stack]:
    """A log of two partitions that no other test has to read."""
    with Stack(broker, "damaged", 2) as stack:
        stack.start()
        for begin in range(0, 60, 20):
            stack.produce((n % 2, None, move(f"p{n}", n * 1_000)) for n in range(begin, begin + 20))
            time.sleep(0.2)  # in commits of their own
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        yield stack


def test_a_segment_that_cannot_be_read_is_named_by_its_offset(damaged, sessions, tmp_path):
    log = damaged.plan.logs[0].topic

    producer = Producer({"bootstrap.servers": damaged.config.bootstrap_servers})
    producer.produce(log, b"no segment", partition=1)
    assert producer.flush(10) == 0

    with pytest.raises(StateError, match=rf"^{log}/1, offset \d+: Segment: 10 bytes"):
        replay(
            damaged.config, damaged.plan, ReplayInput(), f"parquet:{tmp_path / 'new'}", sessions, 1
        )
    assert not list((tmp_path / "new").iterdir())


def test_deleted_records_stop_a_replay_before_spark_starts(damaged):
    log = Partition(damaged.plan.logs[0].topic, 0)

    for deleted in damaged.admin.delete_records([TopicPartition(*log, 2)]).values():
        deleted.result()
    assert offsets(damaged.admin, [log], EARLIEST)[log] == 2

    with pytest.raises(StateError, match=rf"^{log}: offset 0 is gone, the topic begins at 2"):
        diff(damaged.config, damaged.plan, _no_spark, 1)


def _no_spark():
    raise AssertionError("Spark was started")
