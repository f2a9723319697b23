"""A member of a consumer group: its partitions, where each starts, and how far it has read.

Poll and commit happen on one thread.  The offsets to commit are the positions at the return of
``consume``, never positions asked for inside a rebalance: those may count messages that the client
drops instead of returning them.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.errors import InfrastructureError, StateError
from tidemark.partition import Partition
from tidemark.runtime.client.callbacks import Callbacks
from tidemark.runtime.client.clients import when_known
from tidemark.runtime.client.membership import has_moved
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.messages.reader import MayGo, ObjectReader, Reader
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.runtime.retry import retry

_log = logging.getLogger("tidemark")

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_STEP_S = 5.0
_PAUSE_S = 0.1
_UNSETTLED = "waiting for a transaction of the previous owner to end"
_MOVED = "waiting for the coordinator of the group"
_PATIENCE_S = 240.0  # below max.poll.interval.ms, so that waiting does not cost the membership


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition starts.

    ``metadata``: of the committed offset, None without a commit.  ``first``: the first offset that
    the topic keeps.
    """

    partition: Partition
    offset: int
    metadata: str | None
    first: int = 0


class PartitionsLostError(InfrastructureError):
    """The group has removed this member, which must not commit what it has read."""


class RebalanceListener(Protocol):
    """Called when partitions come or go, always inside ``consume`` or ``leave``."""

    def starting(self, starts: Sequence[Start]) -> Sequence[Start]:
        """Return where partitions start; ``starts`` has the committed offsets of the group."""

    def settle(self) -> None:
        """Commit everything taken so far: a rebalance or a long wait follows."""

    def assigned(self, starts: Sequence[Start]) -> None:
        """Take new partitions."""

    def dropped(self, partitions: Sequence[Partition]) -> None:
        """Forget partitions that were revoked, after ``settle``."""

    def waiting(self, reason: str) -> None:
        """Take the reason of a long wait, every few seconds; may raise to end the wait."""


class Member:
    """A consumer that joined a group."""

    def __init__(
        self,
        consumer: Consumer,
        admin: AdminClient,
        listener: RebalanceListener,
        may_go: MayGo = lambda _topic: False,
        reader: Reader | None = None,
    ) -> None:
        """``admin`` must live as long as the member.

        ``may_go``: whether a topic that is gone is no error.  ``reader``: of ``consumer``; by
        default it reads an object for each message.
        """
        self.consumer = consumer
        self._reader = ObjectReader(consumer) if reader is None else reader
        self._admin = admin
        self._listener = listener
        self._may_go = may_go
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._callbacks = Callbacks()
        self._leaving = False
        self.joined = False
        """Whether the group has answered with an assignment; it may be empty."""

    def join(self, topics: Iterable[str]) -> None:
        """Join the group, or read other topics; partitions come and go inside ``consume``."""
        wanted = list(topics)
        if not wanted:  # the client refuses a subscription to no topic
            self.consumer.unsubscribe()
            return
        self.consumer.subscribe(
            wanted,
            on_assign=self._callbacks.safe(self._on_assign),
            on_revoke=self._callbacks.safe(self._on_revoke),
            on_lost=self._callbacks.safe(self._on_lost),
        )

    def consume(self, count: int, timeout_s: float) -> Sequence[ReceivedMessage]:
        """Return up to ``count`` messages; waits for ``timeout_s`` at most (``Reader.read``)."""
        messages = self._callbacks.during(lambda: self._reader.read(count, timeout_s, self._may_go))
        if messages:
            self._note_positions()
        return messages

    def _note_positions(self) -> None:
        assigned = [TopicPartition(*partition) for partition in self._positions]
        for position in self.consumer.position(assigned):
            if (
                position.offset >= 0
            ):  # otherwise nothing was delivered yet, and the start offset counts
                self._positions[Partition(position.topic, position.partition)] = position.offset

    @property
    def positions(self) -> dict[Partition, int]:
        """Return the next offset to read, for each partition owned."""
        return self._positions

    def refresh_positions(self) -> None:
        """Move positions past records that only the broker sees, such as transaction markers."""
        if self._positions:
            self._note_positions()

    @property
    def reading(self) -> dict[Partition, int]:
        """Return the next offset to read, for each partition owned and not paused."""
        return {at: next_ for at, next_ in self._positions.items() if at not in self._paused}

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Stop reading partitions; the first read after ``resume`` takes a third of a second."""
        wanted = list(partitions)
        self.consumer.pause([TopicPartition(*partition) for partition in wanted])
        self._paused.update(wanted)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Read paused partitions again."""
        wanted = list(partitions)
        self.consumer.resume([TopicPartition(*partition) for partition in wanted])
        self._paused.difference_update(wanted)

    def move(self, starts: Iterable[Start]) -> None:
        """Read own partitions from other offsets; messages read before do not come any more."""
        moved = {start.partition: start.offset for start in starts}
        self.consumer.incremental_unassign([TopicPartition(*partition) for partition in moved])
        self._positions |= moved
        self._reader.route(moved)
        self.consumer.incremental_assign([TopicPartition(*at, to) for at, to in moved.items()])

    def leave(self) -> None:
        """Settle and leave the group, so that others need not wait for the session timeout.

        A client that closes while its group rebalances may not know its membership any more, and
        no commit goes without it.  So the last commit comes before ``close``.
        """
        self._listener.settle()
        self._leaving = True
        self._reader.close()
        self._callbacks.during(self.consumer.close)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.joined = True
        if not partitions:
            return
        if self._leaving:  # too late: a client that closes cannot ask for their offsets
            consumer.incremental_assign(partitions)
            return
        self._listener.settle()  # the wait below may be long, and must not hold a transaction
        committed = self._committed(consumer, partitions)
        asked = [Partition(tp.topic, tp.partition) for tp in partitions]
        low = offsets(self._admin, asked, EARLIEST)
        starts = self._listener.starting([_start(tp, low) for tp in committed])
        high = offsets(self._admin, asked, LATEST)  # a start may be an end asked for just now
        for start in starts:
            _require_kept(start, low[start.partition], high[start.partition])
        self._positions |= {start.partition: start.offset for start in starts}
        self._reader.route(asked)
        consumer.incremental_assign([TopicPartition(*s.partition, s.offset) for s in starts])
        try:
            self._listener.assigned(starts)
        except BaseException:
            # Otherwise ``close`` would wait forever for messages that arrived in the meantime.
            self._reader.leave(asked)
            consumer.incremental_unassign(partitions)
            raise

    def _committed(
        self, consumer: Consumer, partitions: list[TopicPartition]
    ) -> list[TopicPartition]:
        """Return committed offsets.

        Waits until transactions of a previous owner have ended, and while the coordinator of the
        group changes.
        """

        def ask() -> list[TopicPartition]:
            committed: list[TopicPartition] = consumer.committed(partitions, timeout=_STEP_S)
            return committed

        def wait(error: Exception) -> None:
            reason = _UNSETTLED if _timed_out(error) else _MOVED
            _log.warning(reason)
            self._listener.waiting(reason)

        def passes(error: Exception) -> bool:
            return _timed_out(error) or has_moved(error)

        try:
            return retry(ask, passes, for_s=_PATIENCE_S, pause_s=_PAUSE_S, on_wait=wait)
        except KafkaException as error:
            if _timed_out(error):
                raise _stuck(partitions) from error
            raise

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._leaving:
            self._listener.settle()
        self._drop(consumer, partitions)

    def _drop(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = [Partition(tp.topic, tp.partition) for tp in partitions]
        self._listener.dropped(gone)
        for partition in gone:
            self._positions.pop(partition, None)
            self._paused.discard(partition)
        self._reader.leave(gone)
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        topics = {tp.topic for tp in partitions}
        if self._leaving or self._are_gone(topics):  # there is nothing to commit for
            self._drop(consumer, partitions)
            return
        names = ", ".join(f"{tp.topic}/{tp.partition}" for tp in partitions)
        raise PartitionsLostError(
            f"the group took {names} away: this process was too slow, or no broker answered"
        )

    def _are_gone(self, topics: Set[str]) -> bool:
        """Return whether topics that may go have been deleted."""
        return all(map(self._may_go, topics)) and topics.isdisjoint(partition_counts(self._admin))


def _timed_out(error: Exception) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() == KafkaError._TIMED_OUT


def _stuck(partitions: Sequence[TopicPartition]) -> InfrastructureError:
    names = ", ".join(f"{tp.topic}/{tp.partition}" for tp in partitions)
    return InfrastructureError(
        f"{names}: no committed offsets for {_PATIENCE_S:.0f} s. If a broker answers, it has lost "
        "the end of a transaction: see 'kafka-transactions.sh find-hanging' and docs/decisions/0004"
    )


def _start(committed: TopicPartition, low: Mapping[Partition, int]) -> Start:
    partition = Partition(committed.topic, committed.partition)
    first = low[partition]
    if committed.offset < 0:
        return Start(partition, first, None, first)
    return Start(partition, committed.offset, committed.metadata or "", first)


def _require_kept(start: Start, low: int, high: int) -> None:
    if not low <= start.offset <= high:
        raise StateError(
            f"{start.partition}: the committed offset {start.offset} is outside of the topic's "
            f"{low} to {high}: records are gone. Start afresh with 'tidemark reset PIPELINE'"
        )


def offsets(
    admin: AdminClient,
    partitions: Iterable[Partition],
    which: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[Partition, int]:
    """Return the first offset or the end of each partition.

    The end counts open transactions, unless ``isolation`` is that of committed records.
    """
    wanted = list(partitions)
    if not wanted:
        return {}

    def ask() -> dict[Partition, int]:
        asked = ask_offsets(admin, wanted, which, isolation)
        return {partition: future.result().offset for partition, future in asked.items()}

    return when_known(ask)


def committed_ends(admin: AdminClient, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return the end of committed records of each partition: readers wait for no transaction."""
    return offsets(admin, partitions, LATEST, IsolationLevel.READ_COMMITTED)


def ask_offsets(
    admin: AdminClient,
    partitions: Iterable[Partition],
    which: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> "dict[Partition, Future[Any]]":
    """Return futures of the first offset or the end of each partition."""
    futures = admin.list_offsets(
        {TopicPartition(*partition): which for partition in partitions},
        isolation_level=isolation,
        request_timeout=_STEP_S,
    )
    return {Partition(tp.topic, tp.partition): future for tp, future in futures.items()}
