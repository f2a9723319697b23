"""The fuzz without Kafka: the ingest that the service runs, its segments and letters as bytes."""

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.fuzz.accounts import KINDS, Account, Books, differences
from tests.fuzz.judge import Judge
from tests.fuzz.records import Raw, Records
from tests.fuzz.shapes import RECEIVED_MS, SHAPES, Shape, build
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.plan.topics import MAX_MESSAGE_BYTES
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.records import Counts
from tidemark.serde.segments import decode_segment, encode_segment

_BATCH = 20_000


@dataclass
class Outcome:
    """What a fuzz found; no ``faults`` where all is well.  ``peak_bytes``: of the service."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    faults: list[str] = field(default_factory=list)
    ingest_s: float = 0.0
    peak_bytes: int = 0

    @property
    def records(self) -> int:
        """Count the records with a fate."""
        return sum(self.counts.values())


class InProcess:
    """One pipeline of all shapes; every shape's records are a partition of their own."""

    def __init__(self, seed: int, max_bytes: int = 2**20) -> None:
        """``seed`` decides the records; ``max_bytes`` is the largest value."""
        self._seed, self._max_bytes = seed, max_bytes
        self._plan = build("fuzz").plan()

    def run(self, records: int, cuts: Sequence[int] = (1,)) -> Outcome:
        """Send ``records`` through ingest once for each seed of ``cuts``, and judge them once."""
        outcome = Outcome()
        each = -(-records // len(SHAPES))
        for shape in SHAPES:
            account = _judged(shape, self.records(shape, each))
            for name, count in account.counts().items():
                outcome.counts[name] += count
            for cut in cuts:
                books, counts, took_s = self._taken(shape, each, cut)
                outcome.ingest_s += took_s
                outcome.faults += self._faults(shape, account, books, counts)
        return outcome

    def records(self, shape: Shape, count: int) -> Iterator[Raw]:
        """Yield a shape's records, the same each time."""
        seed = f"{self._seed}/{shape.name}"
        drawn = Records(shape.rules.columns, shape.times, seed, self._max_bytes)
        return (drawn.next() for _ in range(count))

    def _taken(self, shape: Shape, count: int, cut: int) -> tuple[Books, Counts, float]:
        """Run ingest over a shape's records in batches of the sizes that ``cut`` draws."""
        ingest, progress, books, took_s = Ingest(self._plan), Progress(), Books(), 0.0
        draw, left = random.Random(cut), self.records(shape, count)
        counts, topic = Counts(), f"fuzz-{shape.name}"
        while batch := [raw for _, raw in zip(range(_cut(draw)), left, strict=False)]:
            builder = SegmentBuilder(epoch=0)
            begin_s = time.perf_counter()
            taken = ingest.take(_batch(topic, batch, progress.next_offset), progress)
            builder.add(taken)
            letters = encode_dead_letters(taken.dead_letters)[1]
            written = list(self._segments(topic, builder))
            took_s += time.perf_counter() - begin_s
            progress, counts = taken.progress, counts + taken.counts
            for log, partition, value in written:
                books.segment(log, partition, decode_segment(value))
                if len(value) > MAX_MESSAGE_BYTES:
                    books.faults.append(f"{log}: a segment of {len(value):,} bytes")
            for value in letters:
                note_letter(books, value)
        return books, counts, took_s

    def _segments(self, topic: str, builder: SegmentBuilder) -> Iterator[tuple[str, int, bytes]]:
        for log in self._plan.logs:
            if topic in log.topics:
                built = builder.build(log, RECEIVED_MS, dict.fromkeys(log.topics, 1))
                for partition, segments in enumerate(built):
                    for segment in segments:
                        yield log.topic, partition, encode_segment(segment)

    def _faults(
        self, shape: Shape, account: Account, books: Books, counts: Counts
    ) -> Iterator[str]:
        yield from books.faults
        told = {name: getattr(counts, name) for name in KINDS}
        if told != account.counts() or counts.records != sum(told.values()):
            yield f"{shape.name}: counted {counts}, should be {account.counts()}"
        wrong = dict(differences(f"fuzz-{shape.name}/0", account, books))
        for offset, raw in enumerate(self.records(shape, len(account.kinds))) if wrong else ():
            if offset in wrong:
                yield f"{shape.name}/{offset} {wrong[offset]}: {shown(raw)}"


def note_letter(books: Books, value: bytes) -> None:
    """Note an encoded dead letter, which names its record."""
    letter = json.loads(value)
    source = f"{letter['topic']}/{letter['partition']}"
    books.letter(source, letter["offset"], letter["stage"], letter["reason"])


def shown(raw: Raw) -> str:
    """Return a record as text of bounded length."""
    value = repr(raw.value)
    cut = value if len(value) < 400 else f"{value[:300]}... {len(value):,} characters"
    return f"value {cut}, key {raw.key!r:.60}, timestamp {raw.timestamp_ms}"


def _judged(shape: Shape, records: Iterator[Raw]) -> Account:
    judge, account = Judge(shape.rules), Account()
    for raw in records:
        account.add(judge.judge(raw), times=True)
    return account


def _cut(draw: random.Random) -> int:
    return int(_BATCH ** draw.random()) if draw.random() < 0.5 else _BATCH


def _batch(topic: str, records: Sequence[Raw], first: int) -> RecordBatch:
    return RecordBatch(
        topic=topic,
        partition=0,
        offsets=np.arange(first, first + len(records)),
        timestamps=[raw.timestamp_ms for raw in records],
        keys=[raw.key for raw in records],
        headers=[raw.headers for raw in records],
        values=[raw.value for raw in records],
        next_offset=first + len(records),
        received_at_ms=RECEIVED_MS,
    )
