"""The loop of a service: take input, commit when due, stop on a signal.  One process, one thread.

Errors of the infrastructure end the process with one line; it restarts from its last commit.
"""

import gc
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.errors import InfrastructureError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.placement import placed
from tidemark.runtime.client import clients
from tidemark.runtime.client.broker_probe import BrokerProbe, BrokersAwayError, await_broker
from tidemark.runtime.client.commit import Outbox, outbox
from tidemark.runtime.client.consumer import Member, Start
from tidemark.runtime.client.identity import client_id, give_way
from tidemark.runtime.client.recorded_program import recorded_program
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.config import Config
from tidemark.runtime.memory import taken_bytes
from tidemark.runtime.messages.native_reader import reader_of
from tidemark.runtime.messages.received import ReceivedMessage, joined
from tidemark.runtime.service.batch_sizer import BatchRoom, BatchSizer
from tidemark.runtime.service.commit_interval import CommitInterval
from tidemark.runtime.service.commit_wait import CommitWait
from tidemark.runtime.service.health import Health, serve
from tidemark.runtime.service.reading_stall import ReadingStall
from tidemark.runtime.service.stats import Account
from tidemark.runtime.service.stopping import Stop, StopAskedError
from tidemark.runtime.service.telemetry import Telemetry, WaitsFor
from tidemark.runtime.service.watchdog import watchdog
from tidemark.runtime.wall_clock import now_ms

_log = logging.getLogger("tidemark")

_OUTSIDE = (KafkaException, InfrastructureError)
_IDLE_WAIT_S = 0.1
_REPORT_S = 1.0
_COLLECT_S = 60.0


class Work(Protocol):
    """What a service does with its messages; it never commits itself."""

    @property
    def batch(self) -> int:
        """The largest number of messages per ``take``, at present."""

    gathers: bool
    """Whether to collect messages until a commit is due, instead of taking them at once."""

    def assigned(self, starts: Sequence[Start]) -> None:
        """Take new partitions."""

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget partitions whose work is committed."""

    def take(self, messages: Sequence[ReceivedMessage]) -> None:
        """Process messages; may write to the outbox."""

    def tick(self) -> None:
        """Do work that needs no message; called at least every tenth of a second."""

    def checkpoint(self) -> Sequence[TopicPartition]:
        """Write the output still missing; return the offsets to commit, none if nothing is new."""

    def waits(self) -> Sequence[str]:
        """Return why some partitions are not processed yet."""

    def figures(self) -> Mapping[str, object]:
        """Return names and values of the progress line in the log; None: not known yet."""

    def account(self, now_ms: int) -> Account:
        """Return the work's part of the stats; called once a second with the wall clock in ms."""


@runtime_checkable
class KeepsPositions(Protocol):
    """Work that keeps its own positions, which outrank the committed offsets."""

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return where partitions start; ``starts`` has the committed offsets of the group."""


@runtime_checkable
class NotesCommits(Protocol):
    """Work that measures when its output becomes visible."""

    def committed(self, now_ms: int) -> None:
        """Note that what the last checkpoint wrote is committed; ``now_ms``: the wall clock."""


class Process:
    """A consumer, its work, and its output, driven by one loop."""

    def __init__(
        self,
        config: Config,
        plan: Plan,
        service: str,
        topics: Callable[[AdminClient, Plan], Iterable[str]],
        may_go: Callable[[str], bool] = lambda _topic: False,
    ) -> None:
        """Wait for a broker and create the clients.

        ``<pipeline>.<service>`` is the group, and with the slot the transactional id.

        Args:
            config: the settings.
            plan: of the pipeline, as compiled; ``self.plan`` is the placed one, by the program
                ``self.recorded``.
            service: its name.
            topics: returns the topics that the service reads, by the placed plan.
            may_go: whether a topic that is gone is no error.
        """
        self.name = name = plan.group(service)
        self.transactional_id = f"{name}.{config.slot}"
        self.stop = Stop()
        self.stop.listen()
        self.health = Health(name, config.stuck_after_ms / 1000)
        self._work: Work | None = None
        self._telemetry = Telemetry(config, plan.pipeline, service, self.health)
        serve(config, self.health, self._telemetry.metrics)
        self.admin = await_broker(config, self.waiting)
        self._telemetry.publish_by(self.admin)
        took_over_ms = 0
        instance_id = self.transactional_id if config.static_membership else None
        if instance_id or config.guarantee == "exactly-once":
            took_over_ms = give_way(
                config, self.admin, name, self.transactional_id, now_ms(), self.waiting
            )
        self._broker_probe = BrokerProbe(self.admin, time.monotonic())
        self._stall = ReadingStall(self.admin, name, time.monotonic())
        watched = watchdog(name, self._broker_probe.answers).call
        self._commit_wait = CommitWait(
            name, self.health, self._broker_probe, config.transaction_timeout_ms
        )
        self.outbox: Outbox = outbox(
            config, self.transactional_id, self._commit_wait.waits, watched
        )
        self._commit_wait.over()
        # Not before: the outbox has ended an open transaction of a predecessor, on the record too.
        self.recorded = recorded_program(config, self.admin, plan.generations)
        self.plan = placed(plan, self.recorded)
        self.topics = list(topics(self.admin, self.plan))
        member_id = client_id(self.transactional_id, took_over_ms)
        found = partition_counts(self.admin)
        partitions = sum(found.get(topic, 1) for topic in self.topics)
        consumer = clients.group_consumer(
            config, name, member_id, instance_id, partitions=partitions
        )
        self.member = Member(
            consumer, self.admin, self, may_go, reader_of(config, consumer, member_id)
        )
        self._commit_interval = CommitInterval(
            config.commit_interval_ms, config.commit_interval_max_ms, time.monotonic()
        )
        self._timeout_ms = config.transaction_timeout_ms
        self.memory_bytes = config.memory_bytes
        self._batch_sizer = BatchSizer(1, self._timeout_ms)
        self._committed: dict[Partition, int] = {}
        self._in_hand: list[Sequence[ReceivedMessage]] = []
        self._failed = False
        self._gone: str | None = None  # why no broker answers
        self.idle_for: WaitsFor = "input"
        """What the process waits for while it has no input."""
        self._reported: Mapping[str, object] = {}
        self._reported_s = self._collected_s = time.monotonic()

    def run(self, work: Work) -> None:
        """Work until a stop signal; then commit and leave the group.

        Raises:
            BrokersAwayError: the loop failed because no broker answered; the cause is chained.
        """
        self._work = work
        self._batch_sizer = BatchSizer(work.batch, self._timeout_ms)
        self.stop.work()
        # Messages are created by the ten thousand, and no message is part of a cycle.
        gc.freeze()
        gc.disable()
        self.member.join(self.topics)
        _log.info("%s started, transactional id %s", self.name, self.transactional_id)
        try:
            while not self.stop.asked:
                self._turn(work)
            self._report(work, time.monotonic())
            self._telemetry.publish(
                work.account, self._committed, self.outbox.written_bytes, stopped=True
            )
            self.member.leave()
            self._telemetry.close()
        except StopAskedError:
            self._fail()
        except BaseException as error:
            error.add_note(f"transactional id {self.transactional_id}")
            away = isinstance(error, _OUTSIDE) and self._broker_probe.was_away(time.monotonic())
            self._fail()
            if away and not self.stop.asked:
                raise BrokersAwayError from error
            raise
        _log.info("%s stopped", self.name)

    def follow(self, topics: Iterable[str]) -> None:
        """Read these topics from now on: some have come or gone."""
        self.topics = list(topics)
        self.member.join(self.topics)

    def _turn(self, work: Work) -> None:
        self._consume(work)
        self._take()
        work.tick()
        now_s = time.monotonic()
        if self.outbox.is_full or self._commit_interval.until_due_s(now_s) == 0.0:
            self.settle()
        self._report(work, now_s)
        self._note_health(work, now_s)
        self._telemetry.poll(work.account, self._committed, self.outbox.written_bytes, now_s)
        if now_s - self._collected_s > _COLLECT_S:
            self._collected_s = now_s
            gc.collect()

    def _consume(self, work: Work) -> None:
        """Wait for a first message, then read what has arrived, or until a commit is due."""
        begin_s = time.monotonic()
        until_due_s = self._commit_interval.until_due_s(begin_s)
        self._batch_sizer.limit(work.batch)
        most = self._batch_sizer.size
        room = BatchRoom(most, taken_bytes(self.memory_bytes))
        room.add(self._read(1, min(until_due_s or _IDLE_WAIT_S, _IDLE_WAIT_S)))
        self._waited(time.monotonic() - begin_s)
        if not self._in_hand:
            return
        begin_s = time.monotonic()
        until_s = begin_s + (self._commit_interval.until_due_s(begin_s) if work.gathers else 0.0)
        while count := room.messages:
            messages = self._read(count, max(0.0, until_s - time.monotonic()))
            room.add(messages)
            if len(messages) < count:
                self._waited(time.monotonic() - begin_s)
                break
        self._telemetry.read(room.read_bytes)

    def _waited(self, seconds: float) -> None:
        """Count seconds without input."""
        self._commit_interval.waited(seconds)
        self._telemetry.waited("broker" if self._gone else self.idle_for, seconds)

    def waited_for_sink(self, seconds: float) -> None:
        """Count seconds in which a sink took results."""
        self._telemetry.waited("sink", seconds)

    def _read(self, count: int, timeout_s: float) -> Sequence[ReceivedMessage]:
        """Read more messages; ``consume`` may empty ``_in_hand``, so it runs first."""
        messages = self.member.consume(count, timeout_s)
        if messages:
            self._in_hand.append(messages)
            self._stall.read(time.monotonic())
        return messages

    def _take(self) -> None:
        if self._in_hand and self._work is not None:
            messages, self._in_hand = joined(self._in_hand), []
            begin_s = time.monotonic()
            self._work.take(messages)
            self._batch_sizer.took(len(messages), time.monotonic() - begin_s)

    def settle(self) -> None:
        """Commit everything taken so far."""
        if self._failed or self._work is None:
            return
        self._take()  # positions already count the messages in hand
        offsets = self._work.checkpoint()
        if offsets:
            begin_s = time.monotonic()
            self.outbox.commit(offsets, self.member.consumer)
            self._commit_wait.over()
            now_s = time.monotonic()
            self._commit_interval.committed(begin_s, now_s)
            self._committed |= {Partition(at.topic, at.partition): at.offset for at in offsets}
            self._telemetry.committed(now_s - begin_s)
            if isinstance(self._work, NotesCommits):
                self._work.committed(now_ms())
        assert not self.outbox.is_open, "output without offsets"

    def settle_within_take(self) -> None:
        """Commit what the work has processed so far of the messages that it is taking.

        Raises:
            StopAskedError: after a stop signal; the rest of the messages is left.
        """
        self.settle()
        self.health.turned()
        self.stop.check()

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return the start offsets of work that keeps its own positions, else those committed."""
        return self._work.starting(starts) if isinstance(self._work, KeepsPositions) else starts

    def assigned(self, starts: Sequence[Start]) -> None:
        """Hand new partitions to the work."""
        self._committed |= {start.partition: start.offset for start in starts}
        self._telemetry.rebalanced()
        if self._work is not None:
            self._work.assigned(starts)
        owned = ", ".join(f"{start.partition} from {start.offset}" for start in starts)
        _log.info("%s was given %s", self.name, owned)

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Take partitions from the work."""
        self._telemetry.rebalanced()
        for partition in partitions:
            self._committed.pop(partition, None)
        if self._work is not None and not self._failed:
            self._work.dropped(partitions)
            _log.info("%s gave up %s", self.name, ", ".join(map(str, partitions)))

    def waiting(self, reason: str) -> None:
        """Note why a call takes long; end it after a stop signal."""
        self.health.waiting(reason)
        if self._work is None:
            self._telemetry.waiting(time.monotonic())
        self.stop.check()

    def _note_health(self, work: Work, now_s: float) -> None:
        self._gone = gone = self._broker_probe.poll(now_s)
        stalled = self._stall.poll(now_s, self.member.reading)
        joining = () if self.member.joined else ("waiting for the group to assign partitions",)
        self.health.waiting(*filter(None, (gone, stalled)), *joining, *work.waits())
        self.health.owns(sorted(self.member.positions))

    def _fail(self) -> None:
        """Abort and leave the group: memory no longer matches the last commit."""
        self._failed = True
        self.outbox.abort()
        try:
            self.member.leave()
        except KafkaException as error:
            _log.warning("%s could not leave its group: %s", self.name, error)

    def _report(self, work: Work, now_s: float) -> None:
        if now_s - self._reported_s < _REPORT_S and not self.stop.asked:
            return
        figures = work.figures()
        if figures != self._reported:
            known = (f"{name}={value}" for name, value in figures.items() if value is not None)
            _log.info("%s %s", self.name, " ".join(known))
        self._reported, self._reported_s = figures, now_s
