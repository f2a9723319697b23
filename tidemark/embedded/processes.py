"""Helpers for child processes: a lock between them, a common end, the end of a log."""

import ctypes
import fcntl
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from tidemark.errors import ConfigurationError

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@contextmanager
def only_one_process(lock: Path) -> Iterator[None]:
    """Return a context that one process at a time enters; a kill releases the lock, too."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    except OSError as error:
        raise ConfigurationError(f"folder {lock.parent}: {error.strerror}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def die_with_parent() -> None:
    """Let the calling child get SIGTERM when its parent ends in any way (Linux only)."""
    if _LIBC is not None:
        _LIBC.prctl(1, signal.SIGTERM)


def size_of(log: Path) -> int:
    """Return the size of a log in bytes, 0 if it does not exist."""
    return log.stat().st_size if log.exists() else 0


def last_words(log: Path, begin: int = 0) -> str:
    """Return the last error of a log, or its last line, and the path of the log.

    The indented lines after an error belong to it.
    ``begin``: only what follows this many bytes counts, unless the log has become shorter.
    """
    written = log.read_bytes() if log.exists() else b""
    text = written[begin if begin <= len(written) else 0 :].decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [n for n, line in enumerate(lines) if "ERROR" in line or "Exception: " in line]
    first = errors[-1] if errors else max(0, len(lines) - 1)
    words = [*lines[first : first + 1], *takewhile(lambda line: line[0] == " ", lines[first + 1 :])]
    return "\n".join(words or ["it wrote no log"]).strip() + f" (all of it: {log})"
