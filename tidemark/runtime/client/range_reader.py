"""Reads ranges of topic partitions, outside of any group, up to given ends."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from confluent_kafka import Message, TopicPartition

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.runtime.client.clients import plain_consumer, records
from tidemark.runtime.config import Config

_log = logging.getLogger("tidemark")

_BATCH = 500
_WAIT_S = 0.2
_QUIET_S = 5.0
_HANGING_S = 120.0  # beyond the timeout: the broker checks every 10 s, and may stand still
_ANSWER_S = 5.0

Range = tuple[int, int]


class RangeReader:
    """Reads the committed records of partitions, each from one offset to another.

    The ends must count uncommitted records.  Then reading waits for transactions that are open, or
    whose end is not visible yet.  Committed ends would silently leave out their records.
    """

    def __init__(
        self, config: Config, ranges: Mapping[Partition, Range], patience_s: float | None = None
    ) -> None:
        """``ranges``: first offset and end of each partition.

        ``patience_s``: longest wait without progress; by default the longest life of a transaction.
        """
        self._ends = {at: end for at, (_, end) in ranges.items()}
        self._positions = {at: begin for at, (begin, _) in ranges.items()}
        self._consumer = plain_consumer(config, partitions=len(ranges))
        self._consumer.assign([TopicPartition(*at, begin) for at, begin in self._positions.items()])
        self._moved_s = self._warned_s = time.monotonic()
        longest_s = config.transaction_timeout_ms / 1000 + _HANGING_S
        self._patience_s = longest_s if patience_s is None else patience_s
        self.waits_for: list[Partition] = []
        """Partitions where another process has had a transaction open for some seconds."""

    @property
    def left_of(self) -> dict[Partition, int]:
        """Return the number of offsets still to read, by partition."""
        return {at: max(0, end - self._positions[at]) for at, end in self._ends.items()}

    @property
    def left(self) -> int:
        """Return the number of offsets still to read."""
        return sum(self.left_of.values())

    def extend(self, at: Partition, end: int) -> None:
        """Read a partition to a later end; records that were read before are not read again."""
        self._ends[at] = end

    def read(self, timeout_s: float, count: int = _BATCH) -> list[Message]:
        """Return at most the next ``count`` records; an empty list if nothing comes in time."""
        messages = list(records(self._arrived(timeout_s, count)))
        self._note_positions()
        return [message for message in messages if self._is_wanted(message)]

    def _arrived(self, timeout_s: float, count: int) -> list[Message]:
        """Wait for a message, then return it and all that have come meanwhile.

        The client itself would wait the whole time for ``count`` messages.
        """
        first: list[Message] = self._consumer.consume(1, timeout_s)
        return [*first, *self._consumer.consume(count - 1, 0)] if first else []

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Stop reading some partitions."""
        gone = [at for at in partitions if self._ends.pop(at, None) is not None]
        for at in gone:
            del self._positions[at]
        if gone:
            self._consumer.incremental_unassign([TopicPartition(*at) for at in gone])

    def _note_positions(self) -> None:
        before = self.left
        for position in self._consumer.position([TopicPartition(*at) for at in self._positions]):
            if position.offset >= 0:
                self._positions[Partition(position.topic, position.partition)] = position.offset
        now_s = time.monotonic()
        if self.left < before:
            self._moved_s = self._warned_s = now_s
            self.waits_for = []
        elif now_s - self._warned_s > _QUIET_S:
            self._warned_s = now_s
            self.waits_for = [at for at, left in self.left_of.items() if left]
            self._report(self.waits_for, now_s - self._moved_s)

    def _report(self, behind: Sequence[Partition], quiet_s: float) -> None:
        """Log which partitions are waited for; raise once no transaction can be that old.

        A broker killed in the middle of a commit may never end it on some partitions.  The offsets
        of the same commit may be there all the same (docs/decisions/0004).
        """
        names = ", ".join(map(str, behind))
        if quiet_s < self._patience_s:
            _log.warning("waiting for an open transaction of another process on %s", names)
            return
        # Raises if the broker is away: then the transaction is not the cause.
        self._consumer.get_watermark_offsets(TopicPartition(*behind[0]), timeout=_ANSWER_S)
        raise StateError(
            f"{names}: a transaction has been open for {quiet_s:.0f} s, longer than any may be: "
            "the broker has lost its end. Find it with 'kafka-transactions.sh find-hanging' and "
            "abort it; its records cannot be trusted, so start the pipeline afresh from its raw "
            "topics"
        )

    def _is_wanted(self, message: Message) -> bool:
        at = Partition(message.topic() or "", message.partition() or 0)
        return (message.offset() or 0) < self._ends.get(at, 0)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def read(config: Config, ranges: Mapping[Partition, Range]) -> Iterator[Message]:
    """Yield the committed records of ranges; those of one partition come in order."""
    reader = RangeReader(config, ranges)
    try:
        while reader.left:
            yield from reader.read(_WAIT_S)
    finally:
        reader.close()
