"""The wall clock."""

import time


def now_ms() -> int:
    """Return the wall clock in ms UTC; results may depend only on values recorded in the log."""
    return time.time_ns() // 1_000_000
