"""The backends: keyed state in memory, or in RocksDB where it is larger than that.

Which one is chosen changes no result and nothing of what Kafka holds, so it may be another at the
next start (docs/operations.md, "Local state").
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient

from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.partition import Partition
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.backends.folder import claimed, claimed_for_blocks
from tidemark.runtime.backends.mirror import Extent, Mirror
from tidemark.runtime.backends.mirrors import Mirrors
from tidemark.runtime.backends.spill import SpillingBlocks
from tidemark.runtime.client.topics import topic_ids
from tidemark.runtime.config import Config

_log = logging.getLogger("tidemark")

_MB = 2**20
_SMALL_BYTES, _LARGE_BYTES = 16 * 2**10, 2 * _MB
Offsets = tuple[int, int]

_FRAMES = 32
"""A budget of memory has room for at least so many frames of which a part is needed."""


class Backend(Protocol):
    """Where a process keeps state besides Kafka."""

    @property
    def store(self) -> BlockStore:
        """Where the blocks of all operators lie."""

    def mirrors(self, admin: AdminClient, offsets: Mapping[Partition, Offsets], /) -> Mirrors:
        """Open the mirrors of changelog partitions, whose first offsets and ends are given."""

    def close(self) -> None:
        """Let go of everything."""


class MemoryBackend:
    """All in memory; a restart reads whole changelogs."""

    store: BlockStore = IN_MEMORY

    def mirrors(self, _admin: AdminClient, _offsets: Mapping[Partition, Offsets]) -> Mirrors:
        """Mirror nothing."""
        return Mirrors({})

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
        frame_bytes = min(_LARGE_BYTES, max(_SMALL_BYTES, memory_bytes // _FRAMES))
        self._blocks = SpillingBlocks(self._claim.folder, memory_bytes, frame_bytes)

    @property
    def store(self) -> BlockStore:
        """The blocks."""
        return self._blocks

    def mirrors(self, admin: AdminClient, offsets: Mapping[Partition, Offsets]) -> Mirrors:
        """Open the mirrors that can be opened; of the others, all is read from Kafka."""
        ids = topic_ids(admin, {at.topic for at in offsets})
        opened = {at: self._mirror(at, Extent(ids[at.topic], *offsets[at])) for at in offsets}
        return Mirrors({at: mirror for at, mirror in opened.items() if mirror is not None})

    def _mirror(self, changelog: Partition, extent: Extent) -> Mirror | None:
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
