"""The part of RocksDB that backends need: keys and values of bytes, and one kind of error.

RocksDB checks what it reads: every block and value has a checksum.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteBatch, WriteOptions

from tidemark.errors import InfrastructureError
from tidemark.runtime.retry import retry

_BUFFER_BYTES = 8 * 2**20
_CACHE_BYTES = 8 * 2**20
_LARGE_BYTES = 4 * 2**10
_OPEN_FILES = 256

# While earlier writes go to disk, RocksDB makes writers wait, forever if the disk has just become
# full.  So ``no_slowdown`` makes it refuse the write, and the write is repeated for a while.
_STALLED = "Write stall"
_STALL_S = 2.0
_STALL_STEP_S = 0.01


class LocalStoreError(InfrastructureError):
    """Local files cannot be read or written; names the folder and the cause."""


class Database:
    """One RocksDB folder, open in this process alone."""

    def __init__(self, folder: Path, *, survives: bool) -> None:
        """Open or create the folder; ``survives``: whether writes outlive the process.

        Raises:
            LocalStoreError: the folder cannot be opened.
        """
        self.folder = folder
        try:
            self._rocks = Rdict(str(folder), _options())
        except Exception as error:
            raise self._failed(error) from error
        how = WriteOptions()
        how.disable_wal = not survives  # type: ignore[method-assign, assignment]  # no method
        how.no_slowdown = True
        self._rocks.set_write_options(how)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None if it has no value."""
        try:
            found: bytes | None = self._rocks.get(key)
        except Exception as error:
            raise self._failed(error) from error
        return found

    def write(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write all records or none; a value of None deletes the key.

        Raises:
            LocalStoreError: the write failed, or was refused for two seconds.
        """
        kept = list(records)
        try:
            retry(
                lambda: self._rocks.write(_batch(kept)),
                lambda error: _STALLED in str(error),
                for_s=_STALL_S,
                pause_s=_STALL_STEP_S,
            )
        except Exception as error:
            raise self._failed(error) from error

    def entries(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys that begin with ``prefix``, without it, and their values, in order."""
        found: list[tuple[bytes, bytes]] = []
        each = self._rocks.iter()
        try:
            each.seek(prefix)
            while each.valid() and each.key().startswith(prefix):
                found.append((each.key()[len(prefix) :], each.value()))
                each.next()
            each.status()  # raises if a fault ended the iteration
        except Exception as error:
            raise self._failed(error) from error
        finally:
            del each  # while it exists, even in a traceback, the folder stays locked
        return found

    def close(self) -> None:
        """Close the folder."""
        try:
            self._rocks.close()
        except Exception as error:
            raise self._failed(error) from error

    def abandon(self) -> None:
        """Close a folder that will be deleted; errors do not matter."""
        with suppress(LocalStoreError):
            self.close()

    def _failed(self, error: Exception) -> LocalStoreError:
        # RocksDB has no kinds of errors, only texts.
        return LocalStoreError(f"{self.folder}: {error}")


def _batch(records: Iterable[tuple[bytes, bytes | None]]) -> WriteBatch:
    batch = WriteBatch(raw_mode=True)
    for key, value in records:
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    return batch


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(_BUFFER_BYTES)
    options.set_max_open_files(_OPEN_FILES)
    options.set_keep_log_file_num(1)
    # Most values are large and short-lived.  Outside of the tree, merges do not copy them.
    options.set_enable_blob_files(True)
    options.set_min_blob_size(_LARGE_BYTES)
    options.set_enable_blob_gc(True)
    options.set_blob_gc_age_cutoff(1.0)
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(_CACHE_BYTES))
    options.set_block_based_table_factory(tables)
    return options
