"""What the processes started here need of each other: turns, an end in common, last words."""

import ctypes
import fcntl
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.errors import ConfigurationError

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@contextmanager
def only_one_process(lock: Path) -> Iterator[None]:
    """Wait for one's turn; the system gives it to the next even when a process is killed."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    except OSError as error:
        raise ConfigurationError(f"folder {lock.parent}: {error.strerror}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def die_with_parent() -> None:
    """Run in a new child: let it be stopped when the parent is killed outright (Linux only)."""
    if _LIBC is not None:
        _LIBC.prctl(1, signal.SIGTERM)


def last_words(log: Path) -> str:
    """Return what a log says about its end: its last error, else its last line."""
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "Exception: " in line]
    return (errors or lines or ["it wrote no log"])[-1].strip() + f" (all of it: {log})"
