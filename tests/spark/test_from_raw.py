"""Ingest run again over raw topics, with the cuts and silences that the log recorded."""

from dataclasses import replace

import polars as pl
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.kafka.pipelines.kinds import build
from tests.kafka.support import nested_orders
from tests.kafka.support.stack import Stack, move, wait_until
from tests.spark.support.live import caught_up
from tidemark import INGEST_TIME
from tidemark.commands.replay_view import diff_lines
from tidemark.core.time.segment import ROW_COLUMNS, Segment
from tidemark.core.time.watermark import Bounded
from tidemark.errors import ConfigurationError, PipelineError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.ingest.source_reset import SourceReset
from tidemark.serde.segments import decode_segment
from tidemark.spark.read.ranges import resolve
from tidemark.spark.read.raw import Raw
from tidemark.spark.replay.jobs import diff
from tidemark.spark.replay.replay import Replay, one_line_errors

Log = dict[tuple[Partition, int], Segment]


def built_again(stack: Stack, plan: Plan, spark) -> Log:
    """Return the log as ingest builds it from the raw topics again."""
    raw = Raw.of(stack.config, stack.admin, plan)
    return _collected(Replay(plan, resolve(stack.admin, plan), raw=raw), stack, spark)


def _collected(replay: Replay, stack: Stack, spark) -> Log:
    return {
        (Partition(row.topic, row.partition), row.offset): decode_segment(bytes(row.value))
        for row in replay.segments(spark, stack.config).collect()
    }


@pytest.fixture(scope="module")
def logged(kinds, spark) -> Log:
    """The log as it is."""
    return _collected(Replay(kinds.plan, resolve(kinds.admin, kinds.plan)), kinds, spark)


def test_an_unchanged_program_gives_the_identical_log(kinds, logged, spark):
    built = built_again(kinds, kinds.plan, spark)

    assert len(logged) > 10
    assert any(mark.idle for segment in logged.values() for mark in segment.sources)
    assert built.keys() == logged.keys()
    for place, segment in logged.items():
        again = built[place]
        assert replace(again, streams={}) == replace(segment, streams={}), place
        assert again.streams.keys() == segment.streams.keys(), place
        for name, rows in segment.streams.items():
            assert again.streams[name].equals(rows), place
            assert again.streams[name].schema == rows.schema


def test_a_changed_program_gets_the_same_cuts_and_silences(kinds, logged, spark):
    slower = build("kinds").plan()
    (source,) = slower.sources
    assert isinstance(source.watermark, Bounded)
    later = replace(source, watermark=replace(source.watermark, delay_ms=60_000))
    built = built_again(kinds, replace(slower, sources=(later,)), spark)

    assert built.keys() == logged.keys()
    assert _marks(built) == _marks(logged)
    rows = [pl.concat(_rows(log)) for log in (logged, built)]
    assert rows[0].height == rows[1].height > 1000
    assert not rows[0]["@watermark"].equals(rows[1]["@watermark"])


def _marks(log: Log) -> dict[tuple[Partition, int], list[object]]:
    """Return the marks of sources in each segment, without their watermarks."""
    marks = {place: segment.sources for place, segment in log.items()}
    return {
        place: [replace(m, watermark_before_ms=0, watermark_ms=0) for m in of_segment]
        for place, of_segment in marks.items()
    }


def _rows(log: Log) -> list[pl.DataFrame]:
    return [
        rows.select(list(ROW_COLUMNS))
        for _, segment in sorted(log.items(), key=lambda item: item[0])
        for _, rows in sorted(segment.streams.items())
    ]


def test_results_made_from_raw_topics_equal_live(game, sessions):
    result = diff(game.config, game.plan, sessions, 2, from_raw=True)

    assert result.equal, "\n".join(diff_lines(result))
    assert sum(topic.left for topic in result.topics) > 20


def test_the_error_names_raw_records_that_are_gone(broker, spark):
    with Stack(broker, "gone") as stack:
        stack.start("ingest")
        stack.produce((0, None, move("ada", at)) for at in range(0, 60_000, 10_000))
        caught_up(stack, "ingest")
        stack.stop()
        raw = stack.raw
        for deleted in stack.admin.delete_records([TopicPartition(raw, 0, 3)]).values():
            deleted.result()
        wanted = rf"{raw}/0: offset 0 is gone, the topic begins at 3"
        with pytest.raises(StateError, match=wanted), one_line_errors():
            built_again(stack, stack.plan, spark)


def test_a_raw_topic_that_was_created_again_is_refused(broker):
    with Stack(broker, "again") as stack:
        stack.start("ingest")
        stack.produce((0, None, move("ada", at)) for at in range(0, 60_000, 10_000))
        caught_up(stack, "ingest")
        stack.stop()
        raw = stack.raw
        stack.admin.delete_topics([raw])[raw].result()
        wait_until(lambda: raw not in partition_counts(stack.admin), "the deletion")
        stack.admin.create_topics([NewTopic(raw, 1, 1)])[raw].result()
        wait_until(lambda: raw in partition_counts(stack.admin), "the topic")
        refused = pytest.raises(StateError, match=f"raw topic {raw} was created again, so it lacks")
        with refused:
            Raw.of(stack.config, stack.admin, stack.plan)
        SourceReset(stack.config, stack.admin, stack.plan, raw).run()
        with refused:
            Raw.of(stack.config, stack.admin, stack.plan)


def test_raw_topics_that_cannot_rebuild_the_log_are_refused(game):
    (source,) = game.plan.sources
    unknown = replace(source, topics=("absent",))
    with pytest.raises(ConfigurationError, match="topic absent does not exist"):
        Raw.of(game.config, game.admin, replace(game.plan, sources=(unknown,)))

    clocked = replace(source, event_time=INGEST_TIME)
    with pytest.raises(PipelineError, match="its event time is when ingest read a record"):
        Raw.of(game.config, game.admin, replace(game.plan, sources=(clocked,)))


def test_a_replay_of_nested_records_equals_live(broker, sessions):
    with Stack(broker, "nested-on-spark", module=nested_orders) as orders:
        orders.start()
        orders.produce(
            (0, None, value) for value in [*nested_orders.records(), nested_orders.ended("u0")]
        )
        caught_up(orders)
        assert set(orders.stop().values()) == {0}
        result = diff(orders.config, orders.plan, sessions, 2, from_raw=True)

    assert result.equal, "\n".join(diff_lines(result))
    assert sum(topic.left for topic in result.topics) > 100
