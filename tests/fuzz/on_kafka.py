"""The fuzz through the service that users run, on a real broker."""

import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.fuzz import shapes
from tests.fuzz.accounts import KINDS, Account, Books, differences
from tests.fuzz.in_process import Outcome, note_letter, shown
from tests.fuzz.judge import Judge
from tests.fuzz.records import Raw, Records
from tests.fuzz.shapes import SHAPES, Shape
from tests.kafka.support.stack import Stack
from tests.patience import PATIENCE_S
from tidemark.partition import Partition
from tidemark.plan.topics import MAX_MESSAGE_BYTES, raw_topics
from tidemark.runtime.client import topics
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.serde.segments import decode_segment

LARGEST_BYTES = MAX_MESSAGE_BYTES - 16 * 2**10
"""Largest value: with key and headers it is still a message that the raw topics take."""

_CLOCKED = ("-clock",)
_PASSING = (KafkaError._TIMED_OUT, KafkaError.NOT_COORDINATOR)


class OnKafka:
    """All shapes as raw topics of a broker; every partition has records of its own."""

    def __init__(self, broker: str, name: str, seed: int, partitions: int = 2) -> None:
        """``seed`` decides the records."""
        self._broker, self._name, self._seed, self._partitions = broker, name, seed, partitions

    def run(self, count: int, max_bytes: int = LARGEST_BYTES) -> Outcome:
        """Send ``count`` records through ingest and judge what it wrote."""
        each = -(-count // (len(SHAPES) * self._partitions))
        outcome = Outcome()
        with Stack(self._broker, self._name, self._partitions, module=shapes) as stack:
            stack.start("ingest")
            accounts = dict(self._produced(stack, each, max_bytes))
            for account in accounts.values():
                for name, number in account.counts().items():
                    outcome.counts[name] += number
            outcome.ingest_s = _await_all_read(stack)
            outcome.peak_bytes = _peak_bytes(stack.process("ingest").pid)
            assert stack.stop("ingest") == {"ingest": 0}
            figures = stack.figures("ingest")
            outcome.faults += self._faults(stack, accounts, figures, each, max_bytes)
        return outcome

    def _records(self, shape: Shape, partition: int, count: int, max_bytes: int) -> Iterator[Raw]:
        seed = f"{self._seed}/{shape.name}/{partition}"
        drawn = Records(shape.rules.columns, shape.times, seed, max_bytes)
        for _ in range(count):
            raw = drawn.next()  # a record without a timestamp is given one by the client
            yield raw._replace(timestamp_ms=max(1, raw.timestamp_ms))

    def _produced(self, stack: Stack, count: int, max_bytes: int) -> Iterator[tuple[str, Account]]:
        producer = Producer(
            {
                "bootstrap.servers": self._broker,
                "enable.idempotence": True,
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "linger.ms": 20,
            }
        )
        for shape in SHAPES:
            topic, timed = f"{self._name}-{shape.name}", f"-{shape.name}" not in _CLOCKED
            for partition in range(self._partitions):
                judge, account = Judge(shape.rules), Account()
                for raw in self._records(shape, partition, count, max_bytes):
                    _produce(producer, topic, partition, raw)
                    account.add(judge.judge(raw), times=timed)
                yield f"{topic}/{partition}", account
        assert producer.flush(60) == 0

    def _faults(
        self,
        stack: Stack,
        accounts: dict[str, Account],
        figures: dict[str, str],
        count: int,
        max_bytes: int,
    ) -> Iterator[str]:
        books = _books(stack)
        yield from books.faults
        wanted = {kind: sum(a.counts()[kind] for a in accounts.values()) for kind in KINDS}
        told = {kind: int(figures[kind]) for kind in KINDS}
        if told != wanted or int(figures["records"]) != sum(wanted.values()):
            yield f"figures say {told}, should be {wanted}"
        for shape in SHAPES:
            for partition in range(self._partitions):
                source = f"{self._name}-{shape.name}/{partition}"
                wrong = dict(differences(source, accounts[source], books))
                records = self._records(shape, partition, count if wrong else 0, max_bytes)
                for offset, raw in enumerate(records):
                    if offset in wrong:
                        yield f"{source}/{offset} {wrong[offset]}: {shown(raw)}"


def _produce(producer: Producer, topic: str, partition: int, raw: Raw) -> None:
    while True:
        try:
            producer.produce(
                topic, raw.value, raw.key, partition, timestamp=raw.timestamp_ms,
                headers=list(raw.headers),
            )  # fmt: skip
        except BufferError:
            producer.poll(0.05)
        else:
            producer.poll(0)
            return


def _await_all_read(stack: Stack) -> float:
    """Wait until every raw offset is committed; fail where nothing moves or ingest ended."""
    begin_s = moved_s = time.monotonic()
    raw = [topic.name for topic in raw_topics(stack.plan)]
    counts = topics.partition_counts(stack.admin)
    partitions = [Partition(name, n) for name in raw for n in range(counts[name])]
    wanted = sum(offsets(stack.admin, partitions, LATEST).values())
    settings = {"bootstrap.servers": stack.config.bootstrap_servers}
    group = Consumer({**settings, "group.id": f"{stack.name}.ingest"})
    before = -1
    while (read_to := _committed(group, partitions)) < wanted:
        assert stack.process("ingest").poll() is None, stack.log("ingest")[-2_000:]
        if read_to > before:
            before, moved_s = read_to, time.monotonic()
        assert time.monotonic() - moved_s < PATIENCE_S, f"stalled at {read_to:,} of {wanted:,}"
        time.sleep(0.5)
    group.close()
    return time.monotonic() - begin_s


def _committed(group: Consumer, partitions: list[Partition]) -> int:
    """Add up the group's offsets; 0 while a transaction or a coordinator takes too long."""
    try:
        committed = group.committed([TopicPartition(*at) for at in partitions], timeout=10)
    except KafkaException as error:
        found = error.args[0]
        if not found.retriable() and found.code() not in _PASSING:
            raise
        return 0
    return sum(max(0, each.offset) for each in committed)


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024


def _books(stack: Stack) -> Books:
    """Read what ingest wrote."""
    books = Books(clocked=_CLOCKED)
    names = [*(log.topic for log in stack.plan.logs), stack.plan.dead_letters]
    counts = topics.partition_counts(stack.admin)
    partitions = [Partition(name, n) for name in names for n in range(counts[name])]
    begin = offsets(stack.admin, partitions, EARLIEST)
    end = offsets(stack.admin, partitions, LATEST)
    for message in read(stack.config, {at: (begin[at], end[at]) for at in partitions}):
        value, topic = message.value() or b"", message.topic() or ""
        if topic == stack.plan.dead_letters:
            note_letter(books, value)
        else:
            books.segment(topic, message.partition() or 0, decode_segment(value))
    return books
