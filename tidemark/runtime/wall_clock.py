"""The wall clock."""

import time


def now_ms() -> int:
    """Return the wall clock; only what is recorded in the log may depend on it."""
    return time.time_ns() // 1_000_000
