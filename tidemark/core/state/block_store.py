"""Stores of the blocks of keyed state: in memory, or where a backend puts them.

State holds blocks: frames that never change after they are stored.  A backend (runtime/backends)
may move an unused block out of memory, and load it when its frame is read.  The loaded frame is
equal, so results do not depend on the backend.  A store drops a block when state no longer refers
to it.
"""

from typing import Protocol

import polars as pl

from tidemark.core.state.own_buffers import with_own_buffers


class Block(Protocol):
    """An immutable frame in a store."""

    @property
    def height(self) -> int:
        """The number of lines; does not load the frame."""

    @property
    def size_bytes(self) -> int:
        """The approximate size of the frame in memory; does not load the frame."""

    def frame(self) -> pl.DataFrame:
        """Return the frame, loaded if needed."""


class BlockStore(Protocol):
    """A store of blocks, such as memory or RocksDB."""

    @property
    def frame_bytes(self) -> int | None:
        """The maximum size of frames that are read in parts; None for no maximum."""

    def put(self, due_ms: int, frame: pl.DataFrame, /) -> Block:
        """Store a frame and return its block.

        ``due_ms``: the time until which the lines are needed, about; a hint for what to store
        together.
        """


class _MemoryBlock:
    """A block that holds its frame in memory."""

    __slots__ = ("_frame", "height")

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self.height = frame.height

    @property
    def size_bytes(self) -> int:
        """The approximate size of the frame."""
        return int(self._frame.estimated_size())

    def frame(self) -> pl.DataFrame:
        """Return the frame."""
        return self._frame


class MemoryStore:
    """The store that keeps every frame in memory, without texts that it shares with others."""

    frame_bytes = None

    def put(self, _due_ms: int, frame: pl.DataFrame) -> Block:
        """Return a block that holds the frame."""
        return _MemoryBlock(with_own_buffers(frame))


IN_MEMORY = MemoryStore()
"""The default store."""
