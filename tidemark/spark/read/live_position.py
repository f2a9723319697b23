"""How far live services have come, and which results go with it, while they run.

A service commits offsets and results in one transaction.  So with

1. the offsets committed *before*,
2. the uncommitted ends of the result topics, waited for until no transaction is open below them,
3. the offsets committed *after*,

results below those ends hold everything that segments before (1) gave, and nothing that segments
from (3) on gave.  Of those between, each may be there or not; where live rests there are none.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.client import offline_group
from tidemark.runtime.client.clients import when_known
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.progress import LogProgress, decode
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config
from tidemark.spark.read.ranges import Offsets, Ranges, committed_ends, log_partitions

_log = logging.getLogger("tidemark")

_ANSWER_S = 10.0
_POLL_S = 0.05
_PATIENCE_S = 60.0  # beyond a transaction's timeout: the broker looks every 10 s


@dataclass(frozen=True)
class LivePosition:
    """Where live stands: per service and log partition, and the results that go with it.

    ``begun``: where its state began.
    """

    begun: dict[str, Offsets]
    before: dict[str, Offsets]
    after: dict[str, Offsets]
    results: Ranges

    @property
    def earliest(self) -> Offsets:
        """Where the first of the services that read a log partition began with it."""
        first: dict[Partition, int] = {}
        for of_service in self.begun.values():
            for at, offset in of_service.items():
                first[at] = min(offset, first.get(at, offset))
        return first


def result_topics(operators: Iterable[OperatorPlan]) -> list[str]:
    """Return the topics of results and late rows of operators."""
    return [topic for each in operators for topic in each.topics]


def find_live_position(admin: AdminClient, config: Config, plan: Plan) -> LivePosition:
    """Return where the services of a plan stand now.

    Raises:
        ConfigurationError: a topic does not exist, or no service has ever committed.
        StateError: a transaction stays open.
    """
    counts = require(admin, result_topics(plan.operators))
    results = [Partition(topic, n) for topic, count in counts.items() for n in range(count)]
    before, _ = _committed(admin, config, plan)
    if not any(any(offsets_.values()) for offsets_ in before.values()):
        raise ConfigurationError(
            f"no service of {plan.pipeline} has committed anything: there is nothing to compare"
        )
    ends = offsets(admin, results, LATEST)
    _await_transactions(admin, ends, config.transaction_timeout_ms / 1000 + _PATIENCE_S)
    after, begun = _committed(admin, config, plan)
    return LivePosition(begun, before, after, Ranges(offsets(admin, results, EARLIEST), ends))


def _await_transactions(admin: AdminClient, ends: Offsets, patience_s: float) -> None:
    deadline_s = time.monotonic() + patience_s
    while True:
        reached = committed_ends(admin, ends)
        behind = [at for at, end in ends.items() if reached[at] < end]
        if not behind:
            return
        if time.monotonic() > deadline_s:
            names = ", ".join(map(str, behind))
            raise StateError(f"{names}: a transaction has been open for {patience_s:.0f} s")
        time.sleep(_POLL_S)


def _committed(
    admin: AdminClient, config: Config, plan: Plan
) -> tuple[dict[str, Offsets], dict[str, Offsets]]:
    """Return what each keyed service has committed of its logs, and where its state began."""
    offsets_: dict[str, Offsets] = {}
    begun: dict[str, Offsets] = {}
    for service in plan.keyed_services():
        logs = {each.log for each in plan.of_service(service)}
        wanted = [at for at in log_partitions(admin, plan) if at.topic in logs]
        found = committed_positions(config, plan.group(service), wanted)
        offsets_[service] = _by_partition(found)
        begun[service] = {Partition(tp.topic, tp.partition): _begun(tp) for tp in found}
    return offsets_, begun


def _begun(committed: TopicPartition) -> int:
    """Return where the state behind an offset began, 0 where nothing says so."""
    if committed.offset < 0 or not committed.metadata:
        return 0
    at = Partition(committed.topic, committed.partition)
    return decode(committed.metadata, LogProgress, str(at)).begun


def committed_offsets(config: Config, group: str, wanted: Sequence[Partition]) -> Offsets:
    """Return a group's committed offsets, 0 for none."""
    return _by_partition(committed_positions(config, group, wanted))


def _by_partition(committed: Iterable[TopicPartition]) -> Offsets:
    return {Partition(tp.topic, tp.partition): max(tp.offset, 0) for tp in committed}


def committed_positions(
    config: Config, group: str, wanted: Sequence[Partition]
) -> list[TopicPartition]:
    """Return what a group has committed; waits for commits whose end is not visible yet."""
    return when_known(lambda: offline_group.committed_offsets(config, group, wanted, _ANSWER_S))
