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

A table that cannot be delivered stops alone (``StoppedTables``): its partitions are paused, and
nothing is committed of them.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.topics import own_topics
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.schema_registry import with_registry
from tidemark.runtime.client.silence import EndOffsets
from tidemark.runtime.client.topics import ensure
from tidemark.runtime.config import Config
from tidemark.runtime.faults import as_typed
from tidemark.runtime.memory import held_bytes
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.runtime.service.process import Process
from tidemark.runtime.service.stats import Account
from tidemark.runtime.wall_clock import now_ms
from tidemark.sinks.backoff import Backoff, when_available
from tidemark.sinks.contents import Contents, noted
from tidemark.sinks.delivery import DeadLetterWriter, Delivery
from tidemark.sinks.mapping import mapped, require_mapping
from tidemark.sinks.open import open_sink
from tidemark.sinks.partition_state import PartitionState
from tidemark.sinks.placement import Placement
from tidemark.sinks.sink import (
    Batch,
    OvertakenError,
    Reloads,
    TablesStoppedError,
    UnavailableError,
)
from tidemark.sinks.stopped import StoppedTables
from tidemark.sinks.table import Table, chosen, tables_of
from tidemark.sinks.topic import TopicSink

_log = logging.getLogger("tidemark")

_MOST_HELD = 200_000


@dataclass
class SinkTask:
    """The work of the sink service."""

    process: Process
    delivery: Delivery
    tables: Sequence[Table]
    contents: Contents
    stopped: StoppedTables
    placement: Placement
    batch: int = 20_000
    gathers: bool = True
    _states: dict[Partition, PartitionState] = field(default_factory=dict)
    _moved_topics: set[str] = field(default_factory=set)
    _bytes: int = 0  # of records taken since the last write

    def __post_init__(self) -> None:
        self._ends = EndOffsets(self.process.admin)
        self._backoff = Backoff()
        self._table = {table.topic: table for table in self.tables}
        self._paused = False

    def _prepare_again(self) -> None:
        """Prepare; tables that stop now are let go, and those that go on now are placed."""
        before = set(self.stopped.topics)
        self.placement.prepare()
        self._moved_topics |= before
        self._pause_stopped()

    def _pause_stopped(self) -> None:
        """Let go what has stopped, so that nothing of it is delivered or committed."""
        for at in self._stopped:
            self._states[at].let_go()
        self.process.member.pause(self._stopped)

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return the sink's own positions, or the committed offsets where it has none."""
        return when_available(lambda: self._place(starts), self.process.waiting)

    def _place(self, starts: Sequence[Start]) -> Sequence[Start]:
        self._states |= self.placement.states(starts)
        return [
            Start(each.partition, self._states[each.partition].next_offset, each.metadata)
            for each in starts
        ]

    def assigned(self, starts: Sequence[Start]) -> None:
        """Pause new partitions too, if the sink is away or their tables have stopped."""
        waiting = self._states if self._paused else self._stopped
        self.process.member.pause([each.partition for each in starts if each.partition in waiting])

    @property
    def _left_out(self) -> set[str]:
        return {*self._moved_topics, *self.stopped.topics}

    @property
    def _stopped(self) -> list[Partition]:
        topics = self.stopped.topics
        return [at for at in self._states if at.topic in topics]

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget partitions that were revoked."""
        for partition in partitions:
            self._states.pop(partition, None)

    def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """Hold records until the next write, except those of partitions that will move."""
        left_out = self._left_out
        for message in messages:
            at = Partition(message.topic() or "", message.partition() or 0)
            if at.topic not in left_out:
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
        now_s = time.monotonic()
        if self.stopped.are_due(now_s):
            self._let_go(self.stopped.topics)
        self.stopped.report(now_s)
        if self._moved_topics and not self._backoff.left_s:
            self._place_again()

    def _let_go(self, topics: Collection[str]) -> None:
        """Forget what is read of topics; the next tick places their partitions again."""
        self._moved_topics |= set(topics)
        for at, state in self._states.items():
            if at.topic in topics:
                state.let_go()

    def _place_again(self) -> None:
        try:
            self._prepare_again()
            starts = [
                Start(at, state.next_offset, noted(state.begin))
                for at, state in self._states.items()
                if at.topic in self._moved_topics
            ]
            placed = self._place(starts) if starts else ()
        except UnavailableError as error:
            self._wait(error)
            return
        self._moved_topics.clear()
        self.process.member.move(placed)
        self.process.member.resume([start.partition for start in placed])
        self.assigned(placed)

    def checkpoint(self) -> Sequence[TopicPartition]:
        """Write the held records; return the offsets behind them, none if the sink is away."""
        self._bytes = 0
        try:
            while not self._deliver_all():
                self.stopped.require_others()
                self._pause_stopped()
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
            self.process.idle_for = "sink" if pause else "input"
            (self.process.member.pause if pause else self.process.member.resume)(self._states)
            self.process.member.pause(self._stopped)

    def _deliver_all(self) -> bool:
        """Deliver what is held; return whether that is done, or else some tables have stopped."""
        batches = [
            batch for at in sorted(self._states) if (batch := self._batch_of(at)) is not None
        ]
        if not batches:
            return True
        if self._backoff.reason:  # the failed try may have written some batches
            self._prepare_again()  # it may have lost a table
            self._forget_written()
            batches = [state.batch for state in self._states.values() if state.batch is not None]
        try:
            self.delivery.deliver(batches)
        except TablesStoppedError as error:
            self.stopped.add(error.reasons)
            return False
        for batch in batches:
            state = self._states[batch.partition]
            state.next_offset, state.batch = batch.move.end, None
            state.known = batch.move.end
        return True

    def _batch_of(self, at: Partition) -> Batch | None:
        """Return the batch of a partition, or None; a batch is decoded only once."""
        state = self._states[at]
        if state.batch is not None or not state.held:
            return state.batch
        table = self._table[at.topic]
        decoded = state.decoded(table)
        if decoded.bad:
            # They may be results of another pipeline, which began a moment ago.
            if table.operator and self.contents.has_begun_anew(at.topic, state.begin):
                self._let_go([at.topic])
                return None
            self.delivery.undecoded(state.held, decoded.bad)
        return state.hold(table, at, decoded)

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
        left_out = self._left_out
        for at, state in self._states.items():
            behind = positions[at] > state.committed and not state.held
            if behind and at.topic not in left_out:
                state.committed = positions[at]
                moved.append(TopicPartition(*at, state.committed, noted(state.begin)))
        return moved

    def waits(self) -> Sequence[str]:
        """Return why the sink is away, if it is, and which tables have stopped."""
        return [*filter(None, [self._backoff.reason]), *self.stopped.lines]

    def figures(self) -> Mapping[str, object]:
        """Return counts since the start, and the lag."""
        return {
            "rows": self.delivery.delivered.rows,
            "dead": self.delivery.dead_letters.count,
            "lag": self._ends.lag(self.process.member.positions),
        }

    def account(self, now_ms: int) -> Account:
        """Return counts since the start, and how old results were when the sink had them."""
        delivered = self.delivery.delivered
        by_outbox = isinstance(self.delivery.sink, TopicSink)  # which counts its bytes itself
        return Account(
            delivered.rows,
            delivered.rows,
            self._ends.known,
            self._ends.stable,
            dead_letters=self.delivery.dead_letters.count,
            latencies=delivered.latencies(now_ms),
            dead_reasons=self.delivery.dead_reasons.stats(),
            bytes_out=0 if by_outbox else delivered.size_bytes,
        )


def run(config: Config, plan: Plan) -> None:
    """Run the sink service of a pipeline until a stop signal."""
    sink = open_sink(config.sink.get_secret_value())
    tables = mapped(chosen(tables_of(plan), config.sink_tables), config.sink_mapping)
    require_mapping(config.sink.get_secret_value(), tables)
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
    letters = DeadLetterWriter(own, plan.dead_letters)
    delivery = Delivery(sink, letters, process.waited_for_sink)
    contents = Contents(own, process.admin, plan, tables)
    where = config.pipeline, config.sink_name, config.bootstrap_servers
    stopped = StoppedTables(tables, lambda line: as_typed(line, *where))
    placement = Placement(sink, tables, contents, stopped)
    when_available(placement.prepare, process.waiting)
    process.run(SinkTask(process, delivery, tables, contents, stopped, placement))
    contents.close()
    sink.close()
