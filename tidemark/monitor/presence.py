"""Which processes run, are silent or were replaced: pure functions from stats and the time.

A process says with its last record that it stops.  A process that is killed says nothing: it is
silent until others own its partitions.  See docs/monitor.md, "Processes".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tidemark.partition import Partition
from tidemark.runtime.service.stats import Stats

FORGOTTEN_MS = 3_600_000
"""A process without a record for this time is removed."""

_MISSED_RECORDS = 3
_DELAY_MS = 1_000
"""A record may come this much later than its interval says."""


def silence_ms(stats: Stats) -> int:
    """Return the time without a record after which a process is silent."""
    return _MISSED_RECORDS * stats.interval_ms + _DELAY_MS


def is_silent(stats: Stats, now_ms: int) -> bool:
    """Return whether records of a process are missing."""
    return now_ms - stats.at_ms > silence_ms(stats)


def present(latest: Iterable[Stats], now_ms: int) -> list[Stats]:
    """Return the processes that run, and those that are silent and not replaced."""
    known = [stats for stats in latest if now_ms - stats.at_ms < FORGOTTEN_MS]
    running = [stats for stats in known if not is_silent(stats, now_ms)]
    silent = [stats for stats in known if is_silent(stats, now_ms)]
    owned = {stats.service: set[Partition]() for stats in running}
    for stats in running:
        owned[stats.service].update(_partitions(stats))
    return [*running, *(stats for stats in silent if not _is_replaced(stats, running, owned))]


def _is_replaced(
    silent: Stats, running: Sequence[Stats], owned: Mapping[str, set[Partition]]
) -> bool:
    """Return whether running processes of its service do what a silent process did.

    They own its partitions.  If it had none, one of them started after its last record.
    """
    its = set(_partitions(silent))
    if its:
        return its <= owned.get(silent.service, set())
    return any(
        each.service == silent.service and each.started_at_ms >= silent.at_ms for each in running
    )


def _partitions(stats: Stats) -> Iterator[Partition]:
    return (Partition(each.topic, each.partition) for each in stats.partitions)
