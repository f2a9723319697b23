"""State backends: keyed state in memory, or in RocksDB if it is larger than memory.

The choice changes neither results nor the records in Kafka, so a service may start with another
backend the next time (docs/operations.md, "Local state").
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
"""The memory budget has room for at least this number of partly needed frames."""


class Backend(Protocol):
    """Where a process keeps state locally."""

    @property
    def store(self) -> BlockStore:
        """The store for the blocks of all operators."""

    def mirrors(self, admin: AdminClient, offsets: Mapping[Partition, Offsets], /) -> Mirrors:
        """Return the mirrors of changelog partitions; ``offsets``: their first offsets and ends."""

    def close(self) -> None:
        """Release all files."""


class MemoryBackend:
    """Keeps all state in memory; a restart reads whole changelogs."""

    store: BlockStore = IN_MEMORY

    def mirrors(self, _admin: AdminClient, _offsets: Mapping[Partition, Offsets]) -> Mirrors:
        """Return no mirrors."""
        return Mirrors({})

    def close(self) -> None:
        """Do nothing: there are no files."""


class RocksBackend:
    """Keeps blocks in memory up to a budget, others in RocksDB, and mirrors every changelog."""

    def __init__(self, root: Path, memory_bytes: int) -> None:
        """Claim a new folder below ``root``.

        Raises:
            ConfigurationError: the folder cannot be used.
        """
        self._root = root
        self._claim = claimed_for_blocks(root)
        frame_bytes = min(_LARGE_BYTES, max(_SMALL_BYTES, memory_bytes // _FRAMES))
        self._blocks = SpillingBlocks(self._claim.folder, memory_bytes, frame_bytes)

    @property
    def store(self) -> BlockStore:
        """The store for the blocks of all operators."""
        return self._blocks

    def mirrors(self, admin: AdminClient, offsets: Mapping[Partition, Offsets]) -> Mirrors:
        """Return the mirrors that can be opened; the other changelogs are read from Kafka."""
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
        """Delete the blocks and release the folder."""
        self._blocks.close()
        self._claim.discard()


def opened_backend(config: Config) -> Backend:
    """Return the backend that TIDEMARK_STATE_BACKEND names."""
    if config.state_backend == "memory":
        return MemoryBackend()
    return RocksBackend(config.state_dir, config.state_memory_mb * _MB)
