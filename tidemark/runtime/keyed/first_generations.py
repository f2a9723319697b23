"""The generations of operators that have none yet; the next commit of the operator writes them.

See docs/operations.md, "Generations".  An operator has none at its first start.  The operators of a
pipeline that an earlier version of Tidemark ran have none either.
"""

from collections.abc import Iterable

from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from tidemark.runtime.client.generations import (
    Generation,
    begun_generations,
    newest_generations,
)
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.log_partition import LogPartition


def note_first_generations(
    config: Config, admin: AdminClient, logs: Iterable[LogPartition]
) -> None:
    """Let log partitions write the generations of operators that have none, after a restore."""
    logs = list(logs)
    known = newest_generations(config, admin, logs[0].generations) if logs else {}
    for log in logs:
        plans = [
            each.plan for each in log.operators if (each.plan.name, log.at.number) not in known
        ]
        found = begun_generations(admin, plans, {log.at: log.past.begun}) if plans else {}
        log.begun = [_first(each, log) for each in found.values()]


def _first(generation: Generation, log: LogPartition) -> Generation:
    """Return a generation; results that exist belong to it if its state exists."""
    return replace(generation, begins={}) if log.past.sequence else generation
