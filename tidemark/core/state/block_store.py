"""Where the blocks of keyed state lie: in memory, or wherever a backend puts them.

State holds blocks: frames that never change once they are stored.  A backend (runtime/backends)
may move a block that nobody looks at out of memory and bring it back when its frame is asked for;
it comes back equal, so no result can tell one backend from another.  A block that state no longer
refers to is let go by its store.
"""

from typing import Protocol

import polars as pl


class Block(Protocol):
    """A frame in a store."""

    @property
    def height(self) -> int:
        """Lines of the frame; asking brings nothing back."""

    @property
    def size_bytes(self) -> int:
        """About how many bytes the frame has in memory; asking brings nothing back."""

    def frame(self) -> pl.DataFrame:
        """Return the frame."""


class BlockStore(Protocol):
    """Keeps blocks."""

    @property
    def frame_bytes(self) -> int | None:
        """How large frames should be at most that are read in parts; None: as large as they are."""

    def put(self, due_ms: int, frame: pl.DataFrame, /) -> Block:
        """Take a frame whose lines are wanted until about ``due_ms``: what to keep together."""


class _MemoryBlock:
    """A block in memory."""

    __slots__ = ("_frame", "height")

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self.height = frame.height

    @property
    def size_bytes(self) -> int:
        """About how many bytes it has."""
        return int(self._frame.estimated_size())

    def frame(self) -> pl.DataFrame:
        """Return the frame."""
        return self._frame


class MemoryStore:
    """Keeps every block in memory, at no cost."""

    frame_bytes = None

    def put(self, _due_ms: int, frame: pl.DataFrame) -> Block:
        """Hold the frame itself."""
        return _MemoryBlock(frame)


IN_MEMORY = MemoryStore()
"""The store of state that nobody gave another one."""
