"""Blocks of keyed state in RocksDB; those used last are in memory too.

All operators of a process share the memory for blocks.  A block is written when it has to leave
memory, so state that fits in memory never touches the disk.  Keys begin with the due time, so
blocks that fall due together lie together.  The database does not outlive the process.

A full or failing disk changes no result: blocks stay in memory until writes work again.  If a block
cannot be read back, the process ends and restores its state from Kafka.
See docs/operations.md, "Local state".
"""

import io
import logging
import time
from collections import OrderedDict, deque
from pathlib import Path

import polars as pl

from tidemark.core.state.own_buffers import with_own_buffers
from tidemark.runtime.backends.database import Database, LocalStoreError

_log = logging.getLogger("tidemark")

_RETRY_S = 10.0
_SIGN = 2**63


class _SpillableBlock:
    """A block that is in memory, in the database, or in both."""

    __slots__ = ("_key", "_store", "height", "size_bytes")

    def __init__(self, store: "SpillingBlocks", key: bytes, height: int, size_bytes: int) -> None:
        self._store = store
        self._key = key
        self.height = height
        self.size_bytes = size_bytes

    def frame(self) -> pl.DataFrame:
        """Return the frame, read from the database if it has left memory."""
        return self._store.frame(self._key)

    def __del__(self) -> None:
        # May run at any moment, so it only notes the key.
        self._store.gone.append(self._key)


class SpillingBlocks:
    """A store whose blocks take at most ``memory_bytes`` while the disk takes the others."""

    def __init__(self, folder: Path, memory_bytes: int, frame_bytes: int) -> None:
        """``folder``: empty, only for this store.  ``frame_bytes``: see BlockStore."""
        self.folder = folder
        self.memory_bytes = memory_bytes
        self.frame_bytes: int | None = frame_bytes
        self.resident_bytes = 0
        self.reads = 0
        self.gone: deque[bytes] = deque()
        self._database: Database | None = None
        self._number = 0
        self._frames: OrderedDict[bytes, pl.DataFrame] = OrderedDict()  # used last comes last
        self._sizes: dict[bytes, int] = {}
        self._written: set[bytes] = set()
        self._retry_s: float | None = None

    @property
    def spilled(self) -> int:
        """The number of blocks in the database."""
        return len(self._written)

    def put(self, due_ms: int, frame: pl.DataFrame) -> _SpillableBlock:
        """Return a block that holds ``frame``; ``due_ms``: when it falls due."""
        self._forget()
        self._number += 1
        due = min(max(due_ms, -_SIGN), _SIGN - 1) + _SIGN  # so that bytes sort as numbers do
        key = due.to_bytes(8, "big") + self._number.to_bytes(8, "big")
        return _SpillableBlock(self, key, frame.height, self._hold(key, with_own_buffers(frame)))

    def frame(self, key: bytes) -> pl.DataFrame:
        """Return a block's frame.

        Raises:
            LocalStoreError: the block cannot be read.
        """
        self._forget()
        found = self._frames.get(key)
        if found is not None:
            self._frames.move_to_end(key)
            return found
        data = self._opened().get(key)
        if data is None:
            raise LocalStoreError(f"{self.folder}: a block of state is missing")
        self.reads += 1
        read = self._decoded(data)
        self._hold(key, read)
        return read

    def close(self) -> None:
        """Close the folder; its content is worthless now."""
        database, self._database = self._database, None
        if database is not None:
            database.abandon()

    def _hold(self, key: bytes, frame: pl.DataFrame) -> int:
        """Keep a frame in memory; return its size in bytes."""
        size = int(frame.estimated_size())
        self._frames[key], self._sizes[key] = frame, size
        self.resident_bytes += size
        if self.resident_bytes > self.memory_bytes:
            self._make_room()
        return size

    def _make_room(self) -> None:
        """Take the least recently used blocks out of memory."""
        while self.resident_bytes > self.memory_bytes and self._frames:
            key = next(iter(self._frames))
            if key not in self._written and not self._write(key):
                self._drop_copies()
                return
            self._drop(key)

    def _drop_copies(self) -> None:
        """Drop copies of written blocks, while nothing more can be written."""
        for key in [key for key in self._frames if key in self._written]:
            if self.resident_bytes <= self.memory_bytes:
                return
            self._drop(key)

    def _drop(self, key: bytes) -> None:
        if self._frames.pop(key, None) is not None:
            self.resident_bytes -= self._sizes.pop(key)

    def _write(self, key: bytes) -> bool:
        """Write a block; return False if that failed, or failed within the last ten seconds."""
        if self._retry_s is not None and time.monotonic() < self._retry_s:
            return False
        try:
            self._opened().write([(key, _encoded(self._frames[key]))])
        except LocalStoreError as error:
            if self._retry_s is None:
                _log.warning("state stays in memory while its folder cannot be written: %s", error)
            self._retry_s = time.monotonic() + _RETRY_S
            return False
        if self._retry_s is not None:
            _log.warning("%s can be written again", self.folder)
            self._retry_s = None
        self._written.add(key)
        return True

    def _forget(self) -> None:
        """Delete the blocks that have no references any more."""
        deleted: list[tuple[bytes, None]] = []
        while self.gone:
            key = self.gone.popleft()
            self._drop(key)
            if key in self._written:
                self._written.discard(key)
                deleted.append((key, None))
        if deleted:
            self._delete(deleted)

    def _delete(self, deleted: list[tuple[bytes, None]]) -> None:
        try:
            self._opened().write(deleted)
        except LocalStoreError as error:
            # They only cost disk space until the process ends: nothing will read them again.
            _log.debug("%d blocks stay on disk: %s", len(deleted), error)

    def _opened(self) -> Database:
        if self._database is None:
            self._database = Database(self.folder, survives=False)
        return self._database

    def _decoded(self, data: bytes) -> pl.DataFrame:
        try:
            return pl.read_ipc_stream(io.BytesIO(data))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise LocalStoreError(f"{self.folder}: a block of state is damaged: {error}") from error


def _encoded(frame: pl.DataFrame) -> bytes:
    """Return a frame as an Arrow IPC stream.

    The newest layout would write views of texts with all the buffers that they point into.  A part
    of a large frame then takes as much space as the whole, on disk and in memory once it is read.
    """
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="lz4", compat_level=pl.CompatLevel.oldest())
    return buffer.getvalue()
