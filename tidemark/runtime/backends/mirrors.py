"""The mirrors of a restore: what they hold is read first, then what came after them.

See ``mirror``.  Records are read in the order in which they apply, so that none needs to be held.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping

from tidemark.partition import Partition
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.backends.mirror import Mirror, Record
from tidemark.serde.changelog import SNAPSHOT

_log = logging.getLogger("tidemark")


class Mirrors:
    """Mirrors by changelog partition; partitions may have none."""

    def __init__(self, opened: Mapping[Partition, Mirror]) -> None:
        """Take what was opened."""
        self._mirrors = dict(opened)
        self.are_empty = not any(mirror.sizes for mirror in opened.values())

    def begin(self, at: Partition, first: int) -> int:
        """Return from which offset a partition is to be read; without a mirror, the first."""
        return self._mirrors[at].next_offset if at in self._mirrors else first

    def records(self) -> Iterator[tuple[Partition, bytes, bytes]]:
        """Yield what they hold.

        Raises:
            LocalStoreError: it cannot be read back.
        """
        for at, mirror in list(self._mirrors.items()):
            for key in sorted(mirror.sizes, key=_order):
                if at not in self._mirrors:
                    break  # it went to another owner in the meantime
                yield at, key, mirror.get(key)

    def take(self, at: Partition, records: Iterable[Record], next_offset: int) -> None:
        """Add what was read from Kafka; without room for it, give up the mirror."""
        if at in self._mirrors and not taken(self._mirrors[at], records, next_offset):
            del self._mirrors[at]

    def pop(self, at: Partition) -> Mirror | None:
        """Hand over a mirror."""
        return self._mirrors.pop(at, None)

    def close(self) -> None:
        """Leave them for the next owners."""
        for at in list(self._mirrors):
            self._mirrors.pop(at).close()

    def discard(self) -> None:
        """Delete them."""
        for at in list(self._mirrors):
            self._mirrors.pop(at).discard()


def taken(mirror: Mirror, records: Iterable[Record], next_offset: int) -> bool:
    """Add records to a mirror; where that fails it is deleted, with a word."""
    try:
        mirror.take(records, next_offset)
    except LocalStoreError as error:
        _log.warning("a changelog is mirrored no longer: %s", error)
        mirror.discard()
        return False
    return True


def _order(key: bytes) -> tuple[int, int, int]:
    """Sort what is not of a commit first, then snapshots, then deltas."""
    kind, *rest = key.decode().split("/")
    if not rest:
        return 0, 0, 0
    return (1 if kind == SNAPSHOT else 2), int(rest[0]), int(rest[-1])
