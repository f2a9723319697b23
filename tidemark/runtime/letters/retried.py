"""Which raw records of dead letters were sent again: the compacted topic of retries.

See docs/dead-letters.md.  A record of this topic is written in the transaction that
sends the raw record again.  The key is topic, partition, offset and fingerprint of the refused
record.  So all letters of one record have one key, also those that a reset writes again.
"""

from collections.abc import Collection

import msgspec
from confluent_kafka.admin import AdminClient

from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, committed_ends, offsets
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.config import Config


class Retry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=False):
    """A raw record that was sent again; the fields are those of ``schemas/retry.avsc``."""

    topic: str
    partition: int
    offset: int
    letter: int
    reason: str
    edited: bool
    at_ms: int


def record_of(retry: Retry, fingerprint: str) -> Record:
    """Return the record of a retry; ``fingerprint``: of the raw record that was refused."""
    place = f"{retry.topic}/{retry.partition}/{retry.offset}"
    return f"{place} {fingerprint}".encode(), msgspec.json.encode(retry)


def read_retried(
    config: Config, admin: AdminClient, topic: str, places: Collection[str] | None = None
) -> dict[str, int]:
    """Return when records were sent again, ms UTC, by key.

    ``topic``: ``Plan.retried``; without it nothing was sent again.  ``places``: of the records that
    matter, by default of all.
    """
    if topic not in partition_counts(admin):
        return {}
    at = Partition(topic, 0)
    begins, ends = offsets(admin, [at], EARLIEST), committed_ends(admin, [at])
    found: dict[str, int] = {}
    for message in read(config, {at: (begins[at], ends[at])}):
        key = (message.key() or b"").decode()
        if places is None or key.rpartition(" ")[0] in places:
            found[key] = message.timestamp()[1]
    return found
