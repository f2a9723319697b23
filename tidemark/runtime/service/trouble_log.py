"""Logs what is wrong with a part of a service that goes on without it."""

import logging
from collections.abc import Sequence

_log = logging.getLogger("tidemark")

_REPEAT_S = 60.0


class TroubleLog:
    """Logs lines when they change, and once a minute."""

    def __init__(self) -> None:
        self._lines: Sequence[str] = []
        self._logged_s = 0.0

    def report(self, lines: Sequence[str], now_s: float) -> None:
        """Log lines, if it is time; ``now_s``: monotonic."""
        if lines != self._lines or now_s - self._logged_s > _REPEAT_S:
            self._lines, self._logged_s = lines, now_s
            for line in lines:
                _log.error("%s", line)
