"""Window specifications: frozen values that validate themselves.

Windows are half open, ``[start, end)``, in int64 milliseconds UTC, also before 1970.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hopping:
    """Aligned windows of ``size_ms`` that start every ``slide_ms``; tumbling where both are equal."""

    size_ms: int
    slide_ms: int
    offset_ms: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """Events of a key less than ``gap_ms`` apart; end = last event + gap."""

    gap_ms: int
