"""A local copy of a changelog partition: a restart reads only its tail from Kafka.

A mirror holds the records of the partition below an offset: the newest value of each key, without
tombstones.  It may lag behind.  Reading the partition from that offset on completes it, even where
the broker has compacted the records that it was made of (docs/operations.md, "Local state").

A mirror is written after a commit of Kafka's has succeeded, and decides nothing alone: the sequence
numbers of the changelog prove that the state read is that of the committed offset.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.runtime.backends.database import Database, LocalStoreError
from tidemark.runtime.backends.folder import Claim

_VERSION = 1
_MARK, _SIZE, _VALUE = b"mark", b"size/", b"value/"
"""Keys: of the mirror's own position, and per record of its size and its value.

Sizes are apart from values, so that keys are found without reading values."""

Record = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Extent:
    """A changelog partition on the broker: topic id, first offset and end."""

    topic_id: str
    begin: int
    end: int


class Mirror:
    """The records of one changelog partition below ``next_offset``."""

    def __init__(self, claim: Claim, extent: Extent) -> None:
        """Open a mirror, or begin a new one; ``fault``: why an existing mirror was dropped.

        Raises:
            LocalStoreError: the folder cannot be written.
        """
        self.fault = ""
        self.sizes: dict[bytes, int] = {}
        self.next_offset = extent.begin
        self._claim = claim
        self._topic_id = extent.topic_id
        try:
            self._database = self._opened(extent)
        except LocalStoreError as error:
            self.fault, self.next_offset, self.sizes = str(error), extent.begin, {}
            claim.clear()
            self._database = self._begun()

    def _begun(self) -> Database:
        try:
            return Database(self._claim.folder, survives=True)
        except LocalStoreError:
            self._claim.release()
            raise

    def _opened(self, extent: Extent) -> Database:
        database = Database(self._claim.folder, survives=True)
        try:
            mark = database.get(_MARK)
            if mark is not None:
                self._match(json.loads(mark), extent)
                self.sizes = {key: int(size) for key, size in database.entries(_SIZE)}
        except LocalStoreError:
            database.abandon()
            raise
        return database

    def _match(self, mark: dict[str, object], extent: Extent) -> None:
        offset = mark["next_offset"]
        if mark["version"] != _VERSION or mark["topic_id"] != extent.topic_id:
            raise LocalStoreError("it is of another topic")
        if not isinstance(offset, int) or not extent.begin <= offset <= extent.end:
            raise LocalStoreError(
                f"it ends at offset {offset}, the changelog has {extent.begin} to {extent.end}"
            )
        self.next_offset = offset

    def get(self, key: bytes) -> bytes:
        """Return the value of a key in ``sizes``.

        Raises:
            LocalStoreError: the value cannot be read.
        """
        value = self._database.get(_VALUE + key)
        if value is None:
            raise LocalStoreError(f"{self._claim.folder}: record {key!r} is missing")
        return value

    def take(self, records: Iterable[Record], next_offset: int) -> None:
        """Apply the next records of the partition, all or none; ``next_offset``: behind them.

        Raises:
            LocalStoreError: the write failed.
        """
        entries: list[Record] = []
        sizes = dict(self.sizes)
        for key, value in records:
            if value is None:
                sizes.pop(key, None)
                entries += (_SIZE + key, None), (_VALUE + key, None)
            else:
                sizes[key] = len(value)
                entries += (_SIZE + key, b"%d" % len(value)), (_VALUE + key, value)
        mark = {"version": _VERSION, "topic_id": self._topic_id, "next_offset": next_offset}
        self._database.write([*entries, (_MARK, json.dumps(mark).encode())])
        self.sizes, self.next_offset = sizes, next_offset

    def close(self) -> None:
        """Close the mirror; the next owner of the partition uses it."""
        self._database.close()
        self._claim.release()

    def discard(self) -> None:
        """Delete the mirror: the next owner reads the whole changelog."""
        self._database.abandon()
        self._claim.clear()
        self._claim.release()
