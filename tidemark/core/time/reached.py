"""How far the results of an operator are complete, for the operators that read them."""

from typing import NamedTuple

from tidemark.core.time.segment import NEVER_MS


class Reached(NamedTuple):
    """What an operator has reached on one log partition.

    ``watermark_ms``: no result with an earlier event time follows.  ``is_idle``: all its sources
    are idle, and time alone makes nothing due.
    """

    watermark_ms: int
    is_idle: bool


def behind(clock_ms: int, holds_ms: int) -> int:
    """Return the watermark of results that lie at most ``holds_ms`` behind the clock."""
    return max(NEVER_MS, clock_ms - holds_ms)
