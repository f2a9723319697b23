"""The backends: keyed state in memory, or in RocksDB where it is larger than that.

Which one is chosen changes no result and nothing of what Kafka holds, so it may be another at the
next start (docs/operations.md, "State").
"""

import logging
from pathlib import Path
from typing import Protocol

from tidemark.core.block_store import IN_MEMORY, BlockStore
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.backends.folder import claimed, claimed_for_blocks
from tidemark.runtime.backends.mirror import Extent, Mirror
from tidemark.runtime.backends.spill import SpillingBlocks
from tidemark.runtime.config import Config
from tidemark.runtime.group import Partition

_log = logging.getLogger("tidemark")

_MB = 2**20
_FRAME_BYTES = 2 * _MB
_FRAMES = 32
"""A budget of memory has room for at least so many frames of which a part is needed."""


class Backend(Protocol):
    """Where a process keeps state besides Kafka."""

    @property
    def store(self) -> BlockStore:
        """Where the blocks of all operators lie."""

    def mirror(self, changelog: Partition, extent: Extent, /) -> Mirror | None:
        """Open the mirror of a changelog; None where there is to be none."""

    def close(self) -> None:
        """Let go of everything."""


class MemoryBackend:
    """All in memory; a restart reads whole changelogs."""

    store: BlockStore = IN_MEMORY

    def mirror(self, _changelog: Partition, _extent: Extent) -> None:
        """Mirror nothing."""

    def close(self) -> None:
        """Do nothing."""


class RocksBackend:
    """Blocks in memory up to a budget, the others in RocksDB; and a mirror of every changelog."""

    def __init__(self, root: Path, memory_bytes: int) -> None:
        """Claim a place under ``root``.

        Raises:
            ConfigurationError: the folder cannot be used.
        """
        self._root = root
        self._claim = claimed_for_blocks(root)
        frame_bytes = min(_FRAME_BYTES, memory_bytes // _FRAMES)
        self._blocks = SpillingBlocks(self._claim.folder, memory_bytes, frame_bytes)

    @property
    def store(self) -> BlockStore:
        """The blocks."""
        return self._blocks

    def mirror(self, changelog: Partition, extent: Extent) -> Mirror | None:
        """Open the mirror of a changelog; without one, all of it is read from Kafka."""
        folder = self._root / "changelogs" / f"{changelog.topic}-{changelog.number}"
        try:
            claim = claimed(folder)
            if claim is None:
                _log.warning("no mirror of %s: another process uses %s", changelog, folder)
                return None
            mirror = Mirror(claim, extent)
        except (LocalStoreError, OSError) as error:
            _log.warning("no mirror of %s: %s", changelog, error)
            return None
        if mirror.fault:
            _log.warning("the mirror of %s is built anew: %s", changelog, mirror.fault)
        return mirror

    def close(self) -> None:
        """Let go of the blocks and delete them."""
        self._blocks.close()
        self._claim.discard()


def opened_backend(config: Config) -> Backend:
    """Return the backend of the settings."""
    if config.state_backend == "memory":
        return MemoryBackend()
    return RocksBackend(config.state_dir, config.state_memory_mb * _MB)
