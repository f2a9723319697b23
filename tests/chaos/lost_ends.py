"""Proof that a broker has lost the end of a transaction: batches of its files (decision 0004).

A producer gets a new epoch only when its transaction has ended, in all partitions of it.  So where
a batch of a newer epoch follows one of an older, and no marker ended that in between, the broker
has skipped the marker.  The next one of that producer is then taken for the end of both: what was
aborted is committed.

Nor is there anything to wait for where a transaction is open in a partition, and the coordinator's
own log says that it is complete: it writes that when all markers are written.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

# KIP-98: offset, length, leader epoch, magic, CRC, attributes, last offset delta, two timestamps,
# producer id and epoch, base sequence, count of records.
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_AFTER = 12  # the length counts from here
_TRANSACTIONAL, _CONTROL = 0x10, 0x20

_OFFSETS, _STATES = "__consumer_offsets", "__transaction_state"
_STATE = struct.Struct(">hqhib")  # version, producer id and epoch, timeout, status
_COMPLETE = {0, 4, 5}  # empty, committed, aborted


class Batch(NamedTuple):
    """What the header of a batch says of its transaction."""

    offset: int
    producer: int
    epoch: int
    is_marker: bool


def lost_ends(data: Path, prefix: str) -> list[str]:
    """Name where an end is missing, in the topics that begin with ``prefix``.

    Changelogs, which are compacted, are left out: there markers may go.
    """
    before, found = _complete(data), []
    opened: list[tuple[str, Batch]] = []
    for folder in sorted([*data.glob(f"{prefix}*"), *data.glob(f"{_OFFSETS}-*")]):
        if ".changelog-" not in folder.name:
            files = sorted(folder.glob("*.log"))
            batches = [batch for file in files for batch in batches_of(file.read_bytes())]
            if not folder.name.startswith(_OFFSETS):
                found += [f"{folder.name} at {offset}" for offset in unended(batches)]
            opened += [(folder.name, batch) for batch in still_open(batches)]
    # A state that is the same before and after is that of all that was read in between.
    complete = dict(before.items() & _complete(data).items())
    lost = (f"{name} at {batch.offset}" for name, batch in opened if batch.producer in complete)
    return sorted({*found, *lost})


def still_open(batches: Iterable[Batch]) -> list[Batch]:
    """Return the last batch of each producer whose last one is no marker."""
    last = {batch.producer: batch for batch in batches}
    return [batch for batch in last.values() if not batch.is_marker]


def _complete(data: Path) -> dict[int, bytes]:
    """Return the producers whose last transaction is complete, with what the coordinator notes."""
    states: dict[int, bytes] = {}
    for file in sorted(data.glob(f"{_STATES}-*/*.log")):
        for value in values_of(file.read_bytes()):
            states[_STATE.unpack_from(value)[1]] = value
    return {
        each: value for each, value in states.items() if _STATE.unpack_from(value)[4] in _COMPLETE
    }


def values_of(segment: bytes) -> Iterator[bytes]:
    """Read the values of records in a file of a partition that is not compressed."""
    for position, header in _headers(segment):
        for _ in range(header[12]):
            size, record = _varint(segment, position)
            position = record + size
            value = _value(segment, record)
            if value is not None:
                yield value


def _value(segment: bytes, record: int) -> bytes | None:
    """Return the value of a record: behind attributes, two deltas and the key."""
    _, at = _varint(segment, record + 1)
    _, at = _varint(segment, at)
    key, at = _varint(segment, at)
    size, at = _varint(segment, at + max(key, 0))
    return None if size < 0 else segment[at : at + size]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number and where it ends."""
    number, shift = 0, 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def unended(batches: Iterable[Batch]) -> list[int]:
    """Return the offsets at which a producer goes on that has an older transaction open."""
    open_epochs: dict[int, int] = {}
    found = []
    for batch in batches:
        if batch.is_marker:
            open_epochs.pop(batch.producer, None)
            continue
        if open_epochs.get(batch.producer, batch.epoch) != batch.epoch:
            found.append(batch.offset)
        open_epochs[batch.producer] = batch.epoch
    return found


def batches_of(segment: bytes) -> Iterator[Batch]:
    """Read the headers of transactional batches in a file of a partition."""
    for _, header in _headers(segment):
        offset, attributes, producer, epoch = (header[n] for n in (0, 5, 9, 10))
        if attributes & _TRANSACTIONAL:
            yield Batch(offset, producer, epoch, bool(attributes & _CONTROL))


def _headers(segment: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Walk the batches of a file that are whole: where their records begin, and their headers."""
    at = 0
    while at + _HEADER.size <= len(segment):
        header = _HEADER.unpack_from(segment, at)
        after = at + _LENGTH_AFTER + header[1]
        if header[1] <= 0 or after > len(segment):
            return  # the rest is room that was set aside, or is being written
        yield at + _HEADER.size, header
        at = after
