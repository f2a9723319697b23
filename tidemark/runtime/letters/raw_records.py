"""Finds the raw records that letters are of, in their topics or in the letters themselves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import Range, read
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.config import Config
from tidemark.serde.letters import Letter, fingerprint
from tidemark.serde.records import NO_TIMESTAMP, Headers

_READ_THROUGH = 1_000
"""Wanted records this close to each other are read together, with those between them."""

Shifts = Mapping[str, Mapping[str, int]]
"""By raw topic and partition, what logs add to offsets: see ``SourceProgress.shift``."""


@dataclass(frozen=True)
class RawRecord:
    """A record of a raw topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def place(self) -> str:
        """Topic, partition and offset."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def fingerprint(self) -> str:
        """The ``fingerprint`` of the record."""
        return fingerprint(self.timestamp_ms, self.key, self.value)

    @property
    def size(self) -> int:
        """The bytes of key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers or ())
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True)
class Origin:
    """The raw record of a letter, or None; ``note``: why it is missing, or is not as it was."""

    record: RawRecord | None
    note: str = ""


class RawRecords:
    """Reads raw records of letters."""

    def __init__(self, config: Config, admin: AdminClient, shifts: Shifts) -> None:
        """``shifts``: of the recorded program of ingest."""
        self._config, self._admin, self._shifts = config, admin, shifts

    def of(self, letters: Sequence[Letter]) -> list[Origin]:
        """Return the origin of each letter of a record or a row, in order."""
        wanted = [self._wanted(letter) for letter in letters]
        found = self.read(set(wanted))
        return [
            _origin(letter, found.get(place)) for letter, place in zip(letters, wanted, strict=True)
        ]

    def _wanted(self, letter: Letter) -> tuple[Partition, int]:
        """Return where the record is now; letters of rows have the offsets of the log."""
        at = Partition(letter.topic, letter.partition)
        shifts = self._shifts.get(letter.topic, {}) if letter.kind == "row" else {}
        return at, letter.offset - shifts.get(str(letter.partition), 0)

    def read(self, wanted: set[tuple[Partition, int]]) -> dict[tuple[Partition, int], RawRecord]:
        """Return the records at places of raw topics that still have them."""
        counts = partition_counts(self._admin)
        places = [
            place for place in sorted(wanted) if place[0].number < counts.get(place[0].topic, 0)
        ]
        partitions = {at for at, _ in places}
        begins = offsets(self._admin, partitions, EARLIEST)
        ends = offsets(self._admin, partitions, LATEST)
        there = [(at, offset) for at, offset in places if begins[at] <= offset < ends[at]]
        found = {}
        for ranges in _rounds(there):
            for message in read(self._config, ranges):
                at = Partition(message.topic() or "", message.partition() or 0)
                place = at, message.offset() or 0
                if place in wanted:
                    found[place] = _record(at, message)
        return found


def _rounds(places: Sequence[tuple[Partition, int]]) -> Iterator[dict[Partition, Range]]:
    """Yield ranges that contain the sorted places; one range of each partition at a time."""
    runs: dict[Partition, list[list[int]]] = {}
    for at, group in groupby(places, key=lambda place: place[0]):
        own = runs.setdefault(at, [])
        for _, offset in group:
            if own and offset - own[-1][1] <= _READ_THROUGH:
                own[-1][1] = offset + 1
            else:
                own.append([offset, offset + 1])
    for number in range(max(map(len, runs.values()), default=0)):
        yield {
            at: (each[number][0], each[number][1])
            for at, each in runs.items()
            if number < len(each)
        }


def _record(at: Partition, message: Message) -> RawRecord:
    return RawRecord(
        at.topic,
        at.number,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),
        message.value(),
        cast(Headers, message.headers()),
    )


def _origin(letter: Letter, found: RawRecord | None) -> Origin:
    if found is not None:
        if letter.kind == "row" or found.fingerprint == letter.fingerprint:
            return Origin(found)
        return Origin(None, "the topic was created again: it has another record at this offset")
    gone = "the record is no longer in its topic"
    if letter.kind == "row":
        return Origin(None, f"{gone}, and the letter has only the row")
    if letter.is_cut:
        return Origin(None, f"{gone}, and the letter has only its beginning")
    kept = RawRecord(
        letter.topic,
        letter.partition,
        letter.offset,
        NO_TIMESTAMP if letter.timestamp_ms is None else letter.timestamp_ms,
        letter.raw_key,
        letter.raw_value,
        None,
    )
    return Origin(kept, f"{gone}: the letter has its key and value, but not its headers")
