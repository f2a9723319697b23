"""Stores of blocks: that of memory, and one that keeps nothing there.

Which one an operator has must not show, so properties draw it with their other incidents.
"""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.runtime.backends.spill import SpillingBlocks

_FRAME_BYTES = 200


@cache
def on_disk() -> SpillingBlocks:
    """Return the store of this process that writes every block to RocksDB at once.

    Frames that are read in parts have but a few lines.
    """
    folder = Path(tempfile.mkdtemp(prefix="tidemark-blocks-"))
    store = SpillingBlocks(folder, memory_bytes=0, frame_bytes=_FRAME_BYTES)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(store.close)
    return store


def stores() -> st.SearchStrategy[BlockStore]:
    """Draw a store."""
    return st.booleans().map(lambda disk: on_disk() if disk else IN_MEMORY)
