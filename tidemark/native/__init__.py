"""Loops in C over records; everything runs without them, only slower.

May import: nothing of the package.
The library is plain C without Python's headers.  A call gets addresses of buffers, and other
threads run during it.  Start with: received.c, and docs/decisions/0055.
"""

import ctypes
import os
from pathlib import Path

VARIABLE = "TIDEMARK_NATIVE"
"""``off``: run as if the library were not built."""

_FUNCTIONS = ("tidemark_read", "tidemark_produce", "tidemark_json_rows")
"""One of each file in C."""


def _found() -> Path | None:
    """Return the library that is built, whatever its suffix; None without one."""
    return next(iter(sorted(Path(__file__).parent.glob("_library*.so"))), None)


def _loaded() -> tuple[ctypes.CDLL | None, str]:
    """Return the library, or None and the reason."""
    if os.environ.get(VARIABLE) == "off":
        return None, f"{VARIABLE}=off"
    path = _found()
    if path is None:
        return None, "it is not built: 'make setup' builds it where a C compiler is"
    try:
        found = ctypes.CDLL(str(path))
    except OSError as error:
        return None, f"it cannot be loaded: {error}"
    if not all(hasattr(found, name) for name in _FUNCTIONS):
        return None, "it is of another version: 'make setup' builds it again"
    return found, ""


library, missing = _loaded()
"""The library, None where it is missing; and why it is."""
