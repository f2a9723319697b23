"""Results as topics beside the live ones, ``<pipeline>.<name>.replay``, exactly once.

A task writes as a service does.  One transaction holds messages and the offset of the log up to
which their segments go.  The metadata of the offset is the name of the replay.  A task that Spark
runs again fences the first attempt, reads from the start, and writes only the messages after the
last commit.
"""

from dataclasses import dataclass, replace

import polars as pl

from tidemark.core.time.segment import OFFSET
from tidemark.errors import ConfigurationError
from tidemark.ingest.derived import hand_on
from tidemark.partition import Partition
from tidemark.plan.physical import DerivedPlan, OperatorPlan, Plan, PortPlan
from tidemark.plan.topics import Topic, own_topics
from tidemark.runtime.client import clients
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.topics import ensure
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.encoders import encoders, messages
from tidemark.serde.dead_letters import DeadLetterEncoder
from tidemark.spark.log_replay import LogReplay, SegmentOutput
from tidemark.spark.outcome import DDL, Outcome, outcome_batch
from tidemark.spark.read.live_position import result_topics
from tidemark.spark.read.segment_rows import Batches
from tidemark.spark.task_transaction import TaskTransaction
from tidemark.spark.work import ResultWriter

_SUFFIX = ".replay"


def replay_topic(live: str) -> str:
    """Return the topic in which a replay writes the messages of a live topic."""
    return f"{live}{_SUFFIX}"


@dataclass(frozen=True)
class Topics:
    """The topics of the replay with the name ``run``."""

    config: Config
    pipeline: str
    run: str
    ddl: str = DDL

    def prepare(self, plan: Plan) -> None:
        """Create the topics.

        Raises:
            ConfigurationError: a topic holds records of an earlier replay.
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

    def open(self, replay: LogReplay) -> ResultWriter:
        """Return a writer for the messages of a log replay."""
        group = f"{self.pipeline}{_SUFFIX}.{replay.slice}"
        return TopicsWriter(self.config, group, self.run, replay, _SUFFIX)


def _renamed(topic: Topic) -> Topic:
    return replace(topic, name=replay_topic(topic.name))


class TopicsWriter:
    """Writes the messages of one log replay to topics with a suffix; live topics have no suffix."""

    def __init__(
        self, config: Config, group: str, run: str, replay: LogReplay, suffix: str
    ) -> None:
        """Fence an earlier attempt; find the offset that it has committed.

        Args:
            config: of the broker.
            group: the consumer group whose offset of the log partition shows the progress.
            run: the name of the replay, in the metadata of that offset.
            replay: the log replay whose messages are written.
            suffix: of the topics; empty for the live topics.
        """
        self._transaction = TaskTransaction(config, group, f"{group}.{replay.log}", replay.log)
        self._run, self._suffix = run, suffix
        self._log = replay.log
        committed = self._transaction.committed()
        self._written = committed.offset if committed.metadata == run else 0
        self._encoders = encoders(config, replay.plans)
        self._derived = {} if suffix else replay.derived
        self._first = -1
        self._transaction.begin_interval()

    def take(self, output: SegmentOutput) -> Batches:
        """Write the messages, except those that an earlier attempt has written."""
        if output.first_offset > self._first:
            self._begin(output.first_offset)
        if output.plan.name in self._derived:
            self._write_dead(output, self._derived[output.plan.name])
        for each in output.plan.ports:
            if not each.topic:  # results that are only handed on
                continue
            name = each.port.name
            rows = output.frames.get(name)
            if rows is not None and output.first_offset < self._written:
                rows = rows.filter(pl.Series(output.offsets[name] >= self._written))
            if rows is not None and rows.height:
                self._write(output.plan, each, rows)
        return iter(())

    def _write_dead(self, output: SegmentOutput, derived: DerivedPlan) -> None:
        """Write dead letters for the results of a stage that a row operator after it refuses."""
        results = output.frames.get(derived.port.name)
        if results is None or results.is_empty():
            return
        first = output.handed_on
        dead = hand_on(derived, results, self._log.number, first).dead
        segments = output.offsets[derived.port.name][dead[OFFSET].to_numpy() - first]
        dead = dead.filter(pl.Series(segments >= self._written, dtype=pl.Boolean))
        letters = DeadLetterEncoder(derived.dead, output.plan.dead_letters).encode(dead)
        self._transaction.output.write(output.plan.dead_letters, 0, *letters)

    def _write(self, plan: OperatorPlan, each: PortPlan, rows: pl.DataFrame) -> None:
        """Write the rows of a port; write dead letters only with the live topics."""
        made = messages(self._encoders, plan.name, each, self._log.number, rows)
        output = self._transaction.output
        if not self._suffix:
            output.write(plan.dead_letters, 0, *made.dead)
        output.write(f"{each.topic}{self._suffix}", self._log.number, *made.published)

    def _begin(self, first_offset: int) -> None:
        """Commit the messages of segments below ``first_offset``, if a commit is due."""
        if self._transaction.is_due and self._transaction.output.is_open:
            self._transaction.commit(first_offset, self._run)
        self._first = first_offset

    def close(self, replay: LogReplay) -> None:
        """Commit the remaining messages."""
        if self._transaction.output.is_open:
            self._transaction.commit(replay.offset + 1, self._run)
        self._transaction.close()

    def finish(self, replay: LogReplay) -> Batches:
        """Commit the remaining messages; yield the outcome."""
        self.close(replay)
        yield outcome_batch(Outcome.of(replay))
