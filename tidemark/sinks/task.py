"""The sink service: reads result topics, writes rows of tables.

A partition starts at the sink's own position; the offsets committed in Kafka follow and only show
the lag.  One write has this order:

1. dead letters of records that do not fit their table; the broker must have them first;
2. rows and positions of all partitions that moved, in one transaction of the sink;
3. the offsets.

If the sink is away, it is tried again after growing pauses.  Its partitions are paused meanwhile,
so nothing is lost and no records pile up.

If a topic was created again, or its operator has a new generation, the sink loads the table again:
it deletes the rows and sets all positions in one transaction, and this process reads on from there.
The same happens to a table without positions.  A process whose positions another one has moved goes
on from the new ones.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message, TopicPartition

from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.schema_registry import with_registry
from tidemark.runtime.client.silence import EndOffsets
from tidemark.runtime.client.topics import ensure, own_topics
from tidemark.runtime.config import Config
from tidemark.runtime.memory import held_bytes
from tidemark.runtime.service.process import Process
from tidemark.runtime.service.stats import Account
from tidemark.runtime.wall_clock import now_ms
from tidemark.sinks.backoff import Backoff, when_available
from tidemark.sinks.contents import Contents, is_older, noted, require_same, resumed
from tidemark.sinks.delivery import DeadLetterWriter, Delivery
from tidemark.sinks.open import open_sink
from tidemark.sinks.rows import decode
from tidemark.sinks.sink import (
    Batch,
    Move,
    OvertakenError,
    Position,
    Reload,
    Reloads,
    UnavailableError,
)
from tidemark.sinks.table import Table, chosen, tables_of
from tidemark.sinks.topic import TopicSink

_log = logging.getLogger("tidemark")

_MOST_HELD = 200_000


@dataclass
class _PartitionState:
    """One partition that this process owns: the sink's position, and the records to write.

    ``begin``: where the records begin that the partition has now.  ``next_offset``: behind the last
    record delivered.  ``known``: the same by the sink's own account, None if it has no position.
    """

    begin: Position
    next_offset: int
    known: int | None
    held: list[Message] = field(default_factory=list)
    batch: Batch | None = None
    committed: int = -1


@dataclass
class SinkTask:
    """The work of the sink service."""

    process: Process
    delivery: Delivery
    tables: Sequence[Table]
    contents: Contents
    batch: int = 20_000
    gathers: bool = True
    _states: dict[Partition, _PartitionState] = field(default_factory=dict)
    _moved_topics: set[str] = field(default_factory=set)
    _bytes: int = 0  # of records taken since the last write

    def __post_init__(self) -> None:
        self._ends = EndOffsets(self.process.admin)
        self._backoff = Backoff()
        self._table = {table.topic: table for table in self.tables}
        self._paused = False

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return the sink's own positions, or the committed offsets where it has none."""
        return when_available(lambda: self._place(starts), self.process.waiting)

    def _place(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Begin partitions at the sink's positions; loads tables again whose topics have moved on.

        Raises:
            StateError: the sink holds other records than the topic, and cannot load them again.
        """
        begins = self.contents.begins({start.partition.topic for start in starts})
        positions = self._positions(begins)
        placed = []
        for start in starts:
            at, begin = start.partition, begins[start.partition.topic][start.partition]
            position = positions.get(at)
            if position is None:
                offset = resumed(start, begin)
            else:
                offset = position.next_offset
                if not isinstance(self.delivery.sink, Reloads):
                    require_same(start, position, begin)
            known = None if position is None else offset
            self._states[at] = _PartitionState(begin, offset, known)
            placed.append(Start(at, offset, start.metadata))
        return placed

    def _positions(
        self, begins: Mapping[str, Mapping[Partition, Position]]
    ) -> Mapping[Partition, Position]:
        """Return the sink's positions, after it has loaded tables again that are not of now."""
        sink = self.delivery.sink
        partitions = [at for each in begins.values() for at in each]
        positions = sink.positions(partitions)
        if not isinstance(sink, Reloads):
            return positions
        reloads = [
            Reload(self._table[topic], begin, empties=any(at in positions for at in begin))
            for topic, begin in begins.items()
            if any(at not in positions or is_older(positions[at], to) for at, to in begin.items())
        ]
        if not reloads:
            return positions
        sink.reload(reloads)
        for each in reloads:
            _log.info(
                "table %s: loads %s from the begin of its results",
                each.table.name,
                each.table.topic,
            )
        return sink.positions(partitions)

    def assigned(self, starts: Sequence[Start]) -> None:
        """Pause new partitions too, if the sink is away."""
        if self._paused:
            self.process.member.pause([start.partition for start in starts])

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget partitions that were revoked."""
        for partition in partitions:
            self._states.pop(partition, None)

    def take(self, messages: Sequence[Message]) -> None:
        """Hold records until the next write, except those of partitions that will move."""
        for message in messages:
            at = Partition(message.topic() or "", message.partition() or 0)
            if at.topic not in self._moved_topics:
                self._states[at].held.append(message)
        self._bytes += sum(map(len, messages))

    def tick(self) -> None:
        """Commit early if too many records are held, or if an unavailable sink is due for a try."""
        held = sum(len(state.held) for state in self._states.values())
        is_full = held > _MOST_HELD or self._bytes > held_bytes(self.process.memory_bytes)
        if is_full or (self._backoff.reason and not self._backoff.left_s):
            self.process.settle()
        if self._states and self._ends.poll(self._states, now_ms()) is not None:
            self.process.member.refresh_positions()
        begins = ((at.topic, state.begin) for at, state in self._states.items())
        self._let_go(self.contents.poll(begins, now_ms()))
        if self._moved_topics and not self._backoff.left_s:
            self._place_again()

    def _let_go(self, topics: Collection[str]) -> None:
        """Forget what is read of topics; the next tick places their partitions again."""
        self._moved_topics |= set(topics)
        for at, state in self._states.items():
            if at.topic in topics:
                state.held, state.batch = [], None

    def _place_again(self) -> None:
        starts = [
            Start(at, state.next_offset, noted(state.begin))
            for at, state in self._states.items()
            if at.topic in self._moved_topics
        ]
        try:
            placed = self._place(starts) if starts else ()
        except UnavailableError as error:
            self._wait(error)
            return
        self._moved_topics.clear()
        self.process.member.move(placed)
        self.assigned(placed)

    def checkpoint(self) -> Sequence[TopicPartition]:
        """Write the held records; return the offsets behind them, none if the sink is away."""
        self._bytes = 0
        try:
            self._deliver_all()
        except UnavailableError as error:
            self._wait(error)
            return ()
        except OvertakenError as error:
            _log.info("%s; going on from the sink's positions", error)
            self._let_go(self._table)
        self._backoff.succeeded()
        self._pause(pause=False)
        return self._moved()

    def _wait(self, error: UnavailableError) -> None:
        self._backoff.failed(str(error))
        self._pause(pause=True)

    def _pause(self, *, pause: bool) -> None:
        if pause != self._paused:
            self._paused = pause
            (self.process.member.pause if pause else self.process.member.resume)(self._states)

    def _deliver_all(self) -> None:
        batches = [
            batch for at in sorted(self._states) if (batch := self._batch_of(at)) is not None
        ]
        if not batches:
            return
        if self._backoff.reason:  # the failed try may have written some batches
            self.delivery.sink.prepare(self.tables)  # it may have lost a table
            self._forget_written()
            batches = [state.batch for state in self._states.values() if state.batch is not None]
        self.delivery.deliver(batches)
        for batch in batches:
            state = self._states[batch.partition]
            state.next_offset, state.batch = batch.move.end, None
            state.known = batch.move.end

    def _batch_of(self, at: Partition) -> Batch | None:
        """Return the batch of a partition, or None; a batch is decoded only once."""
        state = self._states[at]
        if state.batch is not None or not state.held:
            return state.batch
        records, state.held = state.held, []
        values = [record.value() for record in records]
        table = self._table[at.topic]
        decoded = decode(table, values)
        if decoded.bad:
            self.delivery.undecoded(records, decoded.bad)
        good = [records[index] for index in decoded.good]
        end = (records[-1].offset() or 0) + 1
        state.batch = Batch(
            table,
            at,
            Move(state.known, end, state.begin.topic_id),
            decoded.rows,
            [record.offset() or 0 for record in good],
            [record.key() for record in good],
            [values[index] or b"" for index in decoded.good],
            state.begin.generation,
        )
        return state.batch

    def _forget_written(self) -> None:
        """Cut what the sink has taken from the batches.

        Raises:
            OvertakenError: the sink has lost positions, or loads a table again.
        """
        positions = self.delivery.sink.positions(list(self._states))
        for at, state in self._states.items():
            position = positions.get(at)
            if position is None:
                if state.known is not None and isinstance(self.delivery.sink, Reloads):
                    raise OvertakenError(f"{at}: the sink has lost its position {state.known}")
            elif state.known is None or position.next_offset < state.known:
                raise OvertakenError(f"{at}: the sink is back at {position.next_offset}")
            elif position.next_offset > state.known and state.batch is not None:
                state.known = state.next_offset = position.next_offset
                state.batch = state.batch.behind(position.next_offset)

    def _moved(self) -> Sequence[TopicPartition]:
        moved = []
        positions = self.process.member.positions
        for at, state in self._states.items():
            behind = positions[at] > state.committed and not state.held
            if behind and at.topic not in self._moved_topics:
                state.committed = positions[at]
                moved.append(TopicPartition(*at, state.committed, noted(state.begin)))
        return moved

    def waits(self) -> Sequence[str]:
        """Return why the sink is away, if it is."""
        return [self._backoff.reason] if self._backoff.reason else []

    def figures(self) -> Mapping[str, object]:
        """Return counts since the start, and the lag."""
        return {
            "rows": self.delivery.rows,
            "dead": self.delivery.dead_letters.count,
            "lag": self._ends.lag(self.process.member.positions),
        }

    def account(self, _now_ms: int) -> Account:
        """Return counts since the start."""
        return Account(
            self.delivery.rows,
            self.delivery.rows,
            self._ends.known,
            dead_letters=self.delivery.dead_letters.count,
        )


def run(config: Config, plan: Plan) -> None:
    """Run the sink service of a pipeline until a stop signal."""
    sink = open_sink(config.sink.get_secret_value())
    tables = chosen(tables_of(plan), config.sink_tables)
    with_registry(config, {each.topic: each.avro for each in tables if each.avro is not None})
    # Offsets follow the sink's positions and are never ahead of them.  For topics of the same
    # cluster they are part of one transaction.
    own = config.model_copy(
        update={
            "guarantee": config.guarantee if isinstance(sink, TopicSink) else "at-least-once",
            "commit_interval_ms": max(config.commit_interval_ms, sink.every_ms),
            "commit_interval_max_ms": max(config.commit_interval_max_ms, sink.every_ms),
        }
    )
    process = Process(own, plan, config.sink_name, lambda *_: [t.topic for t in tables])
    ensure(process.admin, own_topics(process.plan), config.replication_factor)
    if isinstance(sink, TopicSink):
        sink.join(process.outbox, process.admin, config.replication_factor)
    when_available(lambda: sink.prepare(tables), process.waiting)
    delivery = Delivery(sink, DeadLetterWriter(own, plan.dead_letters))
    contents = Contents(own, process.admin, plan.generations, tables)
    process.run(SinkTask(process, delivery, tables, contents))
    contents.close()
    sink.close()
