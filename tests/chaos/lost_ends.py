"""Proof that a broker has lost the end of a transaction: batches of its files (decision 0004).

A producer gets a new epoch only when its transaction has ended, in all partitions of it.  So where
a batch of a newer epoch follows one of an older, and no marker ended that in between, the broker
has skipped the marker.  The next one of that producer is then taken for the end of both: what was
aborted is committed.
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


class Batch(NamedTuple):
    """What the header of a batch says of its transaction."""

    offset: int
    producer: int
    epoch: int
    is_marker: bool


def lost_ends(data: Path, prefix: str) -> list[str]:
    """Name where an end is missing, in the topics that begin with ``prefix``.

    Topics that are compacted are left out: there markers may go.
    """
    found = []
    for folder in sorted(data.glob(f"{prefix}*")):
        if ".changelog-" not in folder.name:
            files = sorted(folder.glob("*.log"))
            batches = (batch for file in files for batch in batches_of(file.read_bytes()))
            found += [f"{folder.name} at {offset}" for offset in unended(batches)]
    return found


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
    at = 0
    while at + _HEADER.size <= len(segment):
        header = _HEADER.unpack_from(segment, at)
        offset, length, attributes, producer, epoch = (header[n] for n in (0, 1, 5, 9, 10))
        if length <= 0:
            return  # the rest is room that was set aside
        if attributes & _TRANSACTIONAL:
            yield Batch(offset, producer, epoch, bool(attributes & _CONTROL))
        at += _LENGTH_AFTER + length
