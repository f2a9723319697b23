"""Since when a clock has not moved, as far as this process has seen."""

from collections.abc import Hashable


class LastMoved:
    """The last reading of some clocks, and when it was new."""

    def __init__(self) -> None:
        self._readings: dict[Hashable, tuple[int, int]] = {}

    def since_ms(self, clock: Hashable, reading_ms: int, now_ms: int) -> int:
        """Take a reading; return the wall time at which the first equal one in a row was taken."""
        last_ms, since_ms = self._readings.get(clock, (None, now_ms))
        if last_ms != reading_ms:
            since_ms = now_ms
        self._readings[clock] = reading_ms, since_ms
        return since_ms
