"""A disk so small that it is full: a file system in memory for root, else a database that says so.

Both fail where RocksDB writes, and work again once there is room.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.patience import PATIENCE_S
from tidemark.runtime.backends import database

KB = 2**10


def await_files(folder: Path, pattern: str) -> list[Path]:
    """Wait until RocksDB has written files, which it does in the background."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := list(folder.glob(pattern))) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return found


class SmallDisk:
    """A folder on a file system that can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave room for a few files."""
        status = os.statvfs(self.folder)
        self._ballast.write_bytes(bytes(status.f_bavail * status.f_frsize - 2**20))

    def make_room(self) -> None:
        """Free what ``fill`` took."""
        self._ballast.unlink()

    def await_recovery(self, attempt: Callable[[], object], done: Callable[[], object]) -> None:
        """Try until it worked: RocksDB looks only every few seconds whether there is room."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not done() and time.monotonic() < deadline_s:
            attempt()
            time.sleep(0.1)
        assert done()


class FakeDisk(SmallDisk):
    """A folder whose databases cannot write while it is full."""

    full = False

    def fill(self) -> None:
        self.full = True

    def make_room(self) -> None:
        self.full = False


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Make a disk of this size at a folder, empty."""
    mounted = folder / "disk"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(mounted)]
    if (
        os.geteuid() == 0
        and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    ):
        try:
            yield SmallDisk(mounted)
        finally:
            subprocess.run(["umount", "--lazy", str(mounted)], check=True)
        return
    disk, write = FakeDisk(mounted), database.Database.write

    def written(self: database.Database, records: object) -> None:
        if disk.full:
            raise database.LocalStoreError(f"{self.folder}: No space left on device")
        write(self, records)  # type: ignore[arg-type]

    with patch.object(database.Database, "write", written):
        yield disk
