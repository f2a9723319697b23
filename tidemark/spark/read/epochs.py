"""Epochs of logs: where the records of a log begin that was written anew.

A hand-over of a chain writes logs anew: the new records follow the old ones, which are deleted
(docs/replay.md, "Hand-over").  The topic of generations has a record for each of these logs.
"""

from collections.abc import Iterator, Mapping

import msgspec
from confluent_kafka.admin import AdminClient

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import partition_counts, topic_ids
from tidemark.runtime.config import Config

_KEY = b"log:"  # of a record in the topic of generations, followed by the log


class _Epoch(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """The present epoch of a log: the id of its topic, and its first offset by partition."""

    topic_id: str
    begins: dict[int, int]


def records_of_epochs(admin: AdminClient, begins: Mapping[Partition, int]) -> Iterator[Record]:
    """Yield records of the topic of generations: new epochs of logs begin at these offsets."""
    ids = topic_ids(admin, {at.topic for at in begins})
    for topic, topic_id in sorted(ids.items()):
        firsts = {at.number: first for at, first in begins.items() if at.topic == topic}
        yield _KEY + topic.encode(), msgspec.json.encode(_Epoch(topic_id, firsts))


def recorded_epochs(config: Config, admin: AdminClient, generations: str) -> dict[Partition, int]:
    """Return the first offset of each log partition whose log was written anew.

    ``generations``: the topic of generations.  A log that was deleted since is left out.

    Raises:
        StateError: a record cannot be read.
    """
    counts = partition_counts(admin)
    if generations not in counts:
        return {}
    at = Partition(generations, 0)
    begins, ends = offsets(admin, [at], EARLIEST), offsets(admin, [at], LATEST)
    found: dict[str, _Epoch] = {}
    for message in read(config, {at: (begins[at], ends[at])}):
        key, value = message.key() or b"", message.value() or b""
        if key.startswith(_KEY):
            found[key.removeprefix(_KEY).decode()] = _epoch(key, value)
    ids = topic_ids(admin, found.keys() & counts.keys())
    return {
        Partition(topic, number): first
        for topic, topic_id in ids.items()
        if found[topic].topic_id == topic_id
        for number, first in found[topic].begins.items()
    }


def _epoch(key: bytes, value: bytes) -> _Epoch:
    try:
        return msgspec.json.decode(value, type=_Epoch)
    except msgspec.DecodeError as error:
        raise StateError(f"the record {key!r} cannot be read: {error}") from None
