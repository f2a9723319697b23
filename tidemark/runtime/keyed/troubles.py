"""The operators of a process that have stopped, as lines for the log and for health.

See docs/operations.md, "Operators that stop".
"""

import logging
from collections.abc import Iterable

from tidemark.runtime.keyed.log_partition import LogPartition

_log = logging.getLogger("tidemark")

_REPEAT_S = 60.0


def trouble_lines(logs: Iterable[LogPartition]) -> list[str]:
    """Return a line for each operator that has stopped: why, and what leads on."""
    found: dict[str, list[str]] = {}
    for log in logs:
        for each in log.troubles:
            found.setdefault(each.plan.name, []).append(str(each.trouble))
    return [
        f"operator {name} has stopped on {len(texts)} log partitions: {texts[0]}"
        if len(texts) > 1
        else f"operator {name} has stopped: {texts[0]}"
        for name, texts in found.items()
    ]


class TroubleLog:
    """Logs the lines when they change, and once a minute."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._logged_s = 0.0

    def report(self, lines: list[str], now_s: float) -> None:
        """Log lines, if it is time; ``now_s``: monotonic."""
        if lines != self._lines or now_s - self._logged_s > _REPEAT_S:
            self._lines, self._logged_s = lines, now_s
            for line in lines:
                _log.error("%s", line)
