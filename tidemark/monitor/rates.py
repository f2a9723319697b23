"""Rates of a process, from the counts of its last stats records.  Pure.

A count is named by its field, ``rows_in``; by field and operator, ``panes:NAME``; or by the
partition that is read, ``read:TOPIC/NUMBER``.  The rates in stats are those of whole processes and
of one interval; edges of the graph need them by operator and topic, and steadier.
"""

from collections import deque
from collections.abc import Mapping

from tidemark.monitor.alerts import process_of
from tidemark.runtime.service.stats import Stats

WINDOW_MS = 5_000
"""A rate is the mean of this time."""

Rates = Mapping[str, float]
"""Counts a second, by the name of the count."""


def counts(stats: Stats) -> dict[str, int]:
    """Return the counts of a record by name; they only grow in the life of a process."""
    found = {
        "rows_in": stats.rows_in,
        "rows_out": stats.rows_out,
        "late": stats.late,
        "dead_letters": stats.dead_letters,
    }
    for each in stats.operators:
        found[f"rows:{each.operator}"] = each.rows
        found[f"panes:{each.operator}"] = each.panes
    for at in stats.partitions:
        found[f"read:{at.topic}/{at.partition}"] = at.committed
    return found


class RateMeter:
    """The counts of each process in the last seconds; after a restart, rates begin anew."""

    def __init__(self) -> None:
        """Begin without records."""
        self._samples: dict[str, deque[tuple[int, dict[str, int]]]] = {}
        self._lives: dict[str, int] = {}

    def take(self, stats: Stats) -> None:
        """Add a record; the first one of a new life drops those of the life before."""
        process = process_of(stats)
        if self._lives.get(process) != stats.started_at_ms:
            self._lives[process] = stats.started_at_ms
            self._samples[process] = deque()
        samples = self._samples[process]
        samples.append((stats.at_ms, counts(stats)))
        while len(samples) > 2 and stats.at_ms - samples[1][0] >= WINDOW_MS:
            samples.popleft()

    def remove(self, process: str) -> None:
        """Forget a process."""
        self._samples.pop(process, None)
        self._lives.pop(process, None)

    def rates(self, process: str) -> Rates:
        """Return the rates of a process; none before its second record.

        A partition counts while the process has it in the first and the last record.
        """
        samples = self._samples.get(process)
        if samples is None or len(samples) < 2:
            return {}
        (from_ms, first), (to_ms, last) = samples[0], samples[-1]
        if to_ms <= from_ms:
            return {}
        both = first.keys() & last.keys()
        return {name: max(0, last[name] - first[name]) * 1000 / (to_ms - from_ms) for name in both}
