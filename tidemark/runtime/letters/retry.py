"""Sends the raw records of dead letters again, exactly once.

A record goes to the end of its raw partition, with its key, headers and timestamp.  For a few
letters at a time, ``attempts.py`` decides what may be sent.  Then ONE transaction writes the raw
records, and a record for each of them to the topic of retries (docs/dead-letters.md).

The transactional id is the same for every process.  So a new process first ends the open
transaction of a killed one, and fences one that runs.  The fenced process can commit no more, and
the new one sees all that it has committed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tidemark.plan.physical import Plan
from tidemark.plan.topics import topic_of_retries
from tidemark.runtime.client import clients
from tidemark.runtime.client.producer import produce_when_there_is_room
from tidemark.runtime.client.topics import ensure
from tidemark.runtime.client.transaction import STEP_S, committed, persist
from tidemark.runtime.config import Config
from tidemark.runtime.letters.attempts import Attempt, Attempts, Edit
from tidemark.runtime.letters.past import Past
from tidemark.runtime.letters.retried import Retry, read_retried, record_of
from tidemark.runtime.letters.selection import StoredLetter
from tidemark.runtime.wall_clock import now_ms

_MOST_LETTERS, _MOST_BYTES = 500, 8 * 2**20


class RetryJob:
    """Sends letters again, or only says what would become of them."""

    def __init__(
        self,
        config: Config,
        admin: AdminClient,
        plan: Plan,
        past: Past,
        *,
        again: bool = False,
        dry_run: bool = False,
    ) -> None:
        """Fence other processes unless it is a ``dry_run``; read what was sent again before.

        ``again``: send also what was sent or read again before.
        """
        self._topic = plan.retried
        self._producer: Producer | None = None
        if not dry_run:
            ensure(admin, [topic_of_retries(plan)], config.replication_factor)
            producer = clients.transactional_producer(config, plan.retried)
            persist(lambda: producer.init_transactions(STEP_S))
            self._producer = producer
        self._retried_ms = read_retried(config, admin, plan.retried)
        self._attempts = Attempts(config, admin, plan, past, self._retried_ms, again=again)

    def run(self, letters: Iterable[StoredLetter], edit: Edit) -> Iterator[Attempt]:
        """Yield what becomes of each letter, once that is committed.

        Raises:
            InfrastructureError: another process sends letters of the pipeline again.
        """
        for some in _portions(letters):
            attempts = self._attempts.of(some, edit)
            ready = [each for each in attempts if each.state == "checked"]
            if self._producer is not None and ready:
                self._send(self._producer, ready)
                attempts = [
                    replace(each, state="sent") if each.state == "checked" else each
                    for each in attempts
                ]
            yield from attempts

    def _send(self, producer: Producer, attempts: Sequence[Attempt]) -> None:
        """Write the raw records and their records in the topic of retries, in one transaction."""
        at_ms = now_ms()
        fenced = (
            "another process sends dead letters of this pipeline again, and has ended the "
            f"transaction of this one: {len(attempts)} letters were not sent; run the command "
            "again when the other one has ended"
        )
        with committed(producer, fenced):
            for each in attempts:
                self._write(producer, each, at_ms)
        self._retried_ms |= {each.key: at_ms for each in attempts}

    def _write(self, producer: Producer, attempt: Attempt, at_ms: int) -> None:
        record, origin, letter = attempt.record, attempt.origin, attempt.stored.letter
        assert record is not None
        assert origin is not None
        produce_when_there_is_room(
            producer,
            lambda: producer.produce(
                record.topic,
                record.value,
                record.key,
                record.partition,
                timestamp=max(record.timestamp_ms, 0),  # 0: now, for a record without one
                headers=list(record.headers or ()),
            ),
        )
        retry = Retry(
            origin.topic,
            origin.partition,
            origin.offset,
            attempt.stored.id,
            letter.reason,
            attempt.edited,
            at_ms,
        )
        key, value = record_of(retry, origin.fingerprint)
        produce_when_there_is_room(producer, lambda: producer.produce(self._topic, value, key, 0))


def _portions(letters: Iterable[StoredLetter]) -> Iterator[list[StoredLetter]]:
    """Yield letters in lists whose records take little memory."""
    some: list[StoredLetter] = []
    size = 0
    for each in letters:
        if some and (len(some) == _MOST_LETTERS or size + each.letter.size > _MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(each)
        size += each.letter.size
    if some:
        yield some
