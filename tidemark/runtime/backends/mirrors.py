"""The mirrors of a restore: their records are read first, then the newer ones from Kafka.

See mirror.py.  Records come in the order in which they apply, so none needs to be held.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping

from tidemark.partition import Partition
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.backends.mirror import Mirror, Record
from tidemark.serde.changelog import SNAPSHOT

_log = logging.getLogger("tidemark")


class Mirrors:
    """Mirrors by changelog partition; a partition may have none."""

    def __init__(self, opened: Mapping[Partition, Mirror]) -> None:
        """``opened``: mirrors by changelog partition."""
        self._mirrors = dict(opened)
        self.are_empty = not any(mirror.sizes for mirror in opened.values())

    def begin(self, at: Partition, first: int) -> int:
        """Return the offset to read a partition from; ``first`` if it has no mirror."""
        return self._mirrors[at].next_offset if at in self._mirrors else first

    def records(self) -> Iterator[tuple[Partition, bytes, bytes]]:
        """Yield partition, key and value of all records.

        Raises:
            LocalStoreError: a value cannot be read.
        """
        for at, mirror in list(self._mirrors.items()):
            for key in sorted(mirror.sizes, key=_order):
                if at not in self._mirrors:
                    break  # revoked in the meantime
                yield at, key, mirror.get(key)

    def take(self, at: Partition, records: Iterable[Record], next_offset: int) -> None:
        """Add records read from Kafka; if the write fails, delete the mirror."""
        if at in self._mirrors and not taken(self._mirrors[at], records, next_offset):
            del self._mirrors[at]

    def pop(self, at: Partition) -> Mirror | None:
        """Remove and return a mirror."""
        return self._mirrors.pop(at, None)

    def close(self) -> None:
        """Close all mirrors; the next owners use them."""
        for at in list(self._mirrors):
            self._mirrors.pop(at).close()

    def discard(self) -> None:
        """Delete all mirrors."""
        for at in list(self._mirrors):
            self._mirrors.pop(at).discard()


def taken(mirror: Mirror, records: Iterable[Record], next_offset: int) -> bool:
    """Add records to a mirror; if that fails, log it, delete the mirror and return False."""
    try:
        mirror.take(records, next_offset)
    except LocalStoreError as error:
        _log.warning("a changelog is no longer mirrored: %s", error)
        mirror.discard()
        return False
    return True


def _order(key: bytes) -> tuple[int, int, int]:
    """Return a sort key: records outside of commits first, then snapshots, then deltas."""
    kind, *rest = key.decode().split("/")
    if not rest:
        return 0, 0, 0
    return (1 if kind == SNAPSHOT else 2), int(rest[0]), int(rest[-1])
