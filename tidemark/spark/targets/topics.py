"""Results as topics beside the live ones, ``<pipeline>.<name>.replay``, exactly once.

A task writes as a service does: messages and the offset of the log up to which they are, in one
transaction.  The offset carries the replay's own name.  So a task that Spark runs again fences
the first attempt, works from the start, and writes only what follows the last commit.
"""

import time
from dataclasses import dataclass, replace

import polars as pl
from confluent_kafka import Consumer, TopicPartition

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.client import clients
from tidemark.runtime.client.commit import commit_after_s, transaction
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.topics import Topic, ensure, own_topics
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders
from tidemark.runtime.keyed.oversized import Keys, Values, parted
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.spark.outcome import DDL, Outcome, outcome_batch
from tidemark.spark.read.live_position import result_topics
from tidemark.spark.read.segment_rows import Batches
from tidemark.spark.unit import Given, Unit
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

    def open(self, unit: Unit) -> Writer:
        """Begin with the messages of a unit."""
        group = f"{self.pipeline}{_SUFFIX}.{unit.slice}"
        return UnitTopics(self.config, group, self.run, unit, _SUFFIX)


def _renamed(topic: Topic) -> Topic:
    return replace(topic, name=replay_topic(topic.name))


class UnitTopics:
    """The messages of one unit, in topics whose names have a suffix; the live ones have none."""

    def __init__(self, config: Config, group: str, run: str, unit: Unit, suffix: str) -> None:
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

    def take(self, given: Given) -> Batches:
        """Write the messages of segments, but for those that an earlier attempt has written."""
        if given.first > self._first:
            self._begin(given.first)
        plan, output = given.plan, given.output
        encoder = self._encoders[plan.operator.name]
        panes, late = output.panes, output.late
        if given.first < self._written:
            panes = panes.filter(pl.Series(given.pane_offset >= self._written))
            late = late.filter(pl.Series(given.late_offset >= self._written))
        if panes.height:
            self._write_panes(plan, *encoder.panes(panes))
        if late.height:
            self._write(plan.late, *encoder.late(late))
        return iter(())

    def _write_panes(self, plan: OperatorPlan, keys: Keys, values: Values) -> None:
        """Write panes; those that fit no message are dead letters of the live topics alone."""
        keys, values, letters = parted(plan.results, self._log.number, keys, values)
        if letters and not self._suffix:
            self._transaction.write(plan.dead_letters, 0, *encode_dead_letters(letters))
        self._write(plan.results, keys, values)

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

    def close(self, unit: Unit) -> None:
        """Commit the rest."""
        if self._transaction.is_open:
            self._commit(unit.offset + 1)
        self._consumer.close()

    def finish(self, unit: Unit) -> Batches:
        """Commit the rest; tell of the unit."""
        self.close(unit)
        yield outcome_batch(Outcome.of(unit))


def _written(consumer: Consumer, log: Partition, run: str) -> int:
    """Return up to which segment an earlier attempt of this replay has written, 0 for none."""
    (progress,) = consumer.committed([TopicPartition(*log)], timeout=_ANSWER_S)
    return progress.offset if progress.metadata == run else 0
