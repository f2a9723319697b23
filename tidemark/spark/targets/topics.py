"""Results as topics beside the live ones, ``<pipeline>.<name>.replay``, exactly once.

A task writes as a service does: messages and the offset of the log up to which they are, in one
transaction.  The offset carries the replay's own name.  So a task that Spark runs again fences
the first attempt, works from the start, and writes only what follows the last commit.
"""

import time
from dataclasses import dataclass, replace

import polars as pl
from confluent_kafka import Consumer, TopicPartition

from tidemark.core.operators.ports import DEAD
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan, PortPlan
from tidemark.runtime.client import clients
from tidemark.runtime.client.commit import commit_after_s, transaction
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.topics import Topic, ensure, own_topics
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders
from tidemark.runtime.keyed.oversized import Keys, Values, without_oversized
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.spark.log_replay import LogReplay, SegmentOutput
from tidemark.spark.outcome import DDL, Outcome, outcome_batch
from tidemark.spark.read.live_position import result_topics
from tidemark.spark.read.segment_rows import Batches
from tidemark.spark.work import Writer

_ANSWER_S = 30.0
_SUFFIX = ".replay"


def replay_topic(live: str) -> str:
    """Return where a replay writes what live writes to a topic."""
    return f"{live}{_SUFFIX}"


@dataclass(frozen=True)
class Topics:
    """Topics of a replay that is named ``run``."""

    config: Config
    pipeline: str
    run: str
    ddl: str = DDL

    def prepare(self, plan: Plan) -> None:
        """Create the topics.

        Raises:
            ConfigurationError: one holds records of an earlier replay.
        """
        live = {topic.name: topic for topic in own_topics(plan)}
        wanted = [_renamed(live[name]) for name in result_topics(plan.operators)]
        admin = clients.admin(self.config)
        ensure(admin, wanted, self.config.replication_factor)
        partitions = [Partition(topic.name, n) for topic in wanted for n in range(topic.partitions)]
        for at, end in offsets(admin, partitions, LATEST).items():
            if end:
                raise ConfigurationError(
                    f"topic {at.topic} holds an earlier replay: delete it first, "
                    f"with kafka-topics --delete --topic {at.topic}"
                )

    def open(self, unit: LogReplay) -> Writer:
        """Begin with the messages of a unit."""
        group = f"{self.pipeline}{_SUFFIX}.{unit.slice}"
        return UnitTopics(self.config, group, self.run, unit, _SUFFIX)


def _renamed(topic: Topic) -> Topic:
    return replace(topic, name=replay_topic(topic.name))


class UnitTopics:
    """The messages of one unit, in topics whose names have a suffix; the live ones have none."""

    def __init__(self, config: Config, group: str, run: str, unit: LogReplay, suffix: str) -> None:
        """``group``: where the offset of the log is noted, with the name ``run``."""
        self._transaction = transaction(config, f"{group}.{unit.log}")
        self._consumer = clients.plain_consumer(config, group)
        self._run, self._suffix = run, suffix
        self._commit_s = commit_after_s(config)
        self._log = unit.log
        self._written = _written(self._consumer, unit.log, run)
        self._encoders = encoders(config, unit.plans)
        self._first = -1
        self._due_s = time.monotonic() + self._commit_s

    def take(self, given: SegmentOutput) -> Batches:
        """Write the messages of segments, but for those that an earlier attempt has written."""
        if given.first > self._first:
            self._begin(given.first)
        for each in given.plan.ports:
            name = each.port.name
            rows = given.output.frames.get(name)
            if rows is not None and given.first < self._written:
                rows = rows.filter(pl.Series(given.offsets[name] >= self._written))
            if rows is not None and rows.height:
                self._write_rows(given.plan, each, rows)
        return iter(())

    def _write_rows(self, plan: OperatorPlan, each: PortPlan, rows: pl.DataFrame) -> None:
        """Write the rows of a port; dead letters go to the live topics alone."""
        keys: Keys
        values: Values
        keys, values = self._encoders[plan.name, each.port.name].encode(rows)
        if each.port.kind == DEAD:
            self._write_dead(plan, keys, values)
            return
        keys, values, letters = without_oversized(each.topic, self._log.number, keys, values)
        if letters:
            self._write_dead(plan, *encode_dead_letters(letters))
        self._write(each.topic, keys, values)

    def _write_dead(self, plan: OperatorPlan, keys: Keys, values: Values) -> None:
        if not self._suffix:
            self._transaction.write(plan.dead_letters, 0, keys, values)

    def _write(self, topic: str, keys: Keys, values: Values) -> None:
        self._transaction.write(f"{topic}{self._suffix}", self._log.number, keys, values)

    def _begin(self, first: int) -> None:
        """Commit what came before the segments from ``first`` on, if it is time."""
        if time.monotonic() > self._due_s and self._transaction.is_open:
            self._commit(first)
        self._first = first

    def _commit(self, next_offset: int) -> None:
        progress = TopicPartition(*self._log, next_offset, metadata=self._run)
        self._transaction.commit([progress], self._consumer)
        self._due_s = time.monotonic() + self._commit_s

    def close(self, unit: LogReplay) -> None:
        """Commit the rest."""
        if self._transaction.is_open:
            self._commit(unit.offset + 1)
        self._consumer.close()

    def finish(self, unit: LogReplay) -> Batches:
        """Commit the rest; tell of the unit."""
        self.close(unit)
        yield outcome_batch(Outcome.of(unit))


def _written(consumer: Consumer, log: Partition, run: str) -> int:
    """Return up to which segment an earlier attempt of this replay has written, 0 for none."""
    (progress,) = consumer.committed([TopicPartition(*log)], timeout=_ANSWER_S)
    return progress.offset if progress.metadata == run else 0
