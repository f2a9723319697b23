"""What sinks to folders share: locks, names of files, and which faults pass."""

import errno
import fcntl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.errors import ConfigurationError
from tidemark.sinks.identifiers import Identifiers
from tidemark.sinks.sink import UnavailableError
from tidemark.sinks.table import Table

_MOST_BYTES = 255
# The disk may get room, the network or the folder may come back.  Other faults, such as a missing
# right, stay until a person acts.
_PASSING = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.ESTALE,
    errno.ENOENT,
    errno.EAGAIN,
    errno.EBUSY,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ETIMEDOUT,
}


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Return a context that one process at a time enters; waits for the lock on ``path``."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def file_names(derived: Callable[[Table], Iterable[str]]) -> Identifiers:
    """Return the rules of names of files; ``derived``: the longest of a table."""
    return Identifiers("a folder", _MOST_BYTES, derived=derived)


def classified(folder: Path, error: OSError) -> UnavailableError | ConfigurationError:
    """Return a fault of a folder as one that may pass, or as one that a person must mend."""
    line = f"folder {folder}: {error.strerror}"
    return UnavailableError(line) if error.errno in _PASSING else ConfigurationError(line)
