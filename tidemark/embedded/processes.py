"""What every process started here needs: an end with its parent, and last words when it fails."""

import ctypes
import signal
import sys
from pathlib import Path

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


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
