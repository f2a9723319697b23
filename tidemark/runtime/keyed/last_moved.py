"""The wall time since which a clock has not moved, as seen by this process.

See docs/operations.md, "Stats".
"""

from collections.abc import Hashable


class LastMoved:
    """The last reading of each clock, and the wall time at which the reading was new."""

    def __init__(self) -> None:
        self._readings: dict[Hashable, tuple[int, int]] = {}

    def since_ms(self, clock: Hashable, reading_ms: int, now_ms: int) -> int:
        """Take a reading of a clock; return the wall time, ms, since which readings are equal."""
        last_ms, since_ms = self._readings.get(clock, (None, now_ms))
        if last_ms != reading_ms:
            since_ms = now_ms
        self._readings[clock] = reading_ms, since_ms
        return since_ms
