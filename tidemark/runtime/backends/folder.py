"""The folder of local state, and which process owns which part of it.

    blocks-*/       spilled blocks of one process, worthless when the process ends
    changelogs/     a mirror per changelog partition, for the next owner of the partition
    *.lock          held by the process that uses the folder of the same name

The folder may be deleted while no process runs (docs/operations.md, "Local state").
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.errors import ConfigurationError

_BLOCKS = "blocks-"
_LOCK = ".lock"


class Claim:
    """A folder that only this process may use, until it releases it or ends."""

    def __init__(self, folder: Path, lock: int) -> None:
        """``lock``: the file descriptor of the lock file."""
        self.folder = folder
        self._lock = lock

    def clear(self) -> None:
        """Delete the content of the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def discard(self) -> None:
        """Delete the folder and release it."""
        self.clear()
        self.folder.with_name(self.folder.name + _LOCK).unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Release the lock."""
        os.close(self._lock)


def claimed(folder: Path) -> Claim | None:
    """Return a claim of a folder, which need not exist; None if another process has it.

    Raises:
        OSError: the parent folder cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.with_name(folder.name + _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return Claim(folder, lock)


def claimed_for_blocks(root: Path) -> Claim:
    """Return a claim of a new folder for blocks; delete those of processes that have ended.

    Raises:
        ConfigurationError: ``root`` cannot be used.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _alone(root):
            for stale in root.glob(f"{_BLOCKS}*{_LOCK}"):
                _delete_unclaimed(stale.with_name(stale.name.removesuffix(_LOCK)))
            folder = Path(tempfile.mkdtemp(prefix=_BLOCKS, dir=root))
            claim = claimed(folder)
    except OSError as error:
        raise ConfigurationError(
            f"TIDEMARK_STATE_DIR={root}: {error.strerror}; name a folder that user {os.getuid()} "
            "may write to, or keep all state in memory: TIDEMARK_STATE_BACKEND=memory"
        ) from error
    assert claim is not None, f"{folder} is new and claimed"
    return claim


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Return a context that one process at a time enters, to create or delete block folders."""
    lock = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _delete_unclaimed(folder: Path) -> None:
    claim = claimed(folder)
    if claim is not None:
        claim.discard()
