"""The position of live services in their logs, and the results that belong to it, while they run.

A service commits offsets and results in one transaction.  The position is read in this order:

1. the offsets committed *before*;
2. the uncommitted ends of the result topics; then a wait until no transaction is open below them;
3. the offsets committed *after*.

The results below those ends include every result of segments below (1), and no result of segments
from (3) on.  A result of a segment between (1) and (3) may be there or not.  If the services are
idle, (1) and (3) are equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import DerivedPlan, LogPlan, OperatorPlan, Plan
from tidemark.runtime.client import offline_group
from tidemark.runtime.client.consumer import EARLIEST, LATEST, committed_ends, offsets
from tidemark.runtime.client.generations import Key, newest_generations
from tidemark.runtime.client.progress import ANY, LogProgress, decode
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config
from tidemark.runtime.retry import poll
from tidemark.spark.read.ranges import Offsets, Ranges, log_partitions

_WAIT_S = 200.0  # of a transaction that commits offsets, and of brokers that are away
_POLL_S = 0.05
_PATIENCE_S = 60.0  # added to a transaction's timeout: the broker checks for it every 10 s


@dataclass(frozen=True)
class LivePosition:
    """The position of the live services, by service and log partition, and their results.

    ``state_begins``: by operator, the first offset whose segment is in the state.  ``before``,
    ``after``: the committed offsets before and after ``results`` were read.  ``results``: those of
    the present generations, and the logs that stages write.  ``lost_until_ms``: by operator and log
    partition, see ``Generation``; without those that lack no rows.
    """

    state_begins: dict[str, Offsets]
    before: dict[str, Offsets]
    after: dict[str, Offsets]
    results: Ranges
    lost_until_ms: Mapping[Key, int]

    @property
    def earliest(self) -> Offsets:
        """The lowest offset in ``state_begins`` of each log partition, over all operators."""
        first: dict[Partition, int] = {}
        for of_operator in self.state_begins.values():
            for at, offset in of_operator.items():
                first[at] = min(offset, first.get(at, offset))
        return first


def result_topics(operators: Iterable[OperatorPlan]) -> list[str]:
    """Return the topics of results and late rows of operators."""
    return [topic for each in operators for topic in each.topics]


def logs_of_stages(plan: Plan) -> list[tuple[DerivedPlan, LogPlan]]:
    """Return the stages among the operators of a plan, each with a log that an operator reads."""
    names = {each.name for each in plan.operators}
    read = {each.log for each in plan.operators}
    return [
        (derived, log)
        for derived in plan.derived
        for log in plan.fed_by(derived)
        if derived.operator in names and log.topic in read
    ]


def find_live_position(admin: AdminClient, config: Config, plan: Plan) -> LivePosition:
    """Return the current position of the services of a plan.

    Raises:
        ConfigurationError: a topic does not exist, no service has committed an offset, or an
            operator has stopped or catches up.
        StateError: a transaction on a result topic stays open.
    """
    counts = require(admin, result_topics(plan.operators))
    require(admin, [plan.generations])
    counts |= require(admin, sorted({log.topic for _, log in logs_of_stages(plan)}))
    results = [Partition(topic, n) for topic, count in counts.items() for n in range(count)]
    before, _ = _committed(admin, config, plan)
    if not any(any(offsets_.values()) for offsets_ in before.values()):
        raise ConfigurationError(
            f"no service of {plan.pipeline} has committed an offset, so there is nothing to compare"
        )
    ends = offsets(admin, results, LATEST)
    _await_transactions(admin, ends, config.transaction_timeout_ms / 1000 + _PATIENCE_S)
    after, begun = _committed(admin, config, plan)
    known = newest_generations(config, admin, plan.generations)
    firsts = offsets(admin, results, EARLIEST)
    for each in known.values():
        for topic, first in each.begins.items():
            at = Partition(topic, each.partition)
            if at in firsts:
                firsts[at] = max(firsts[at], first)
    state_begins: dict[str, Offsets] = {
        each.name: {
            at: known[each.name, at.number].begun if (each.name, at.number) in known else offset
            for at, offset in begun[each.service].items()
            if at.topic == each.log
        }
        for each in plan.operators
    }
    lost_until_ms = {
        key: each.lost_until_ms for key, each in known.items() if each.lost_until_ms is not None
    }
    return LivePosition(state_begins, before, after, Ranges(firsts, ends), lost_until_ms)


def _await_transactions(admin: AdminClient, ends: Offsets, patience_s: float) -> None:
    """Wait until no transaction is open below these ends."""
    behind: list[Partition] = []

    def ended() -> bool:
        reached = committed_ends(admin, ends)
        behind[:] = (at for at, end in ends.items() if reached[at] < end)
        return not behind

    if not poll(ended, for_s=patience_s, pause_s=_POLL_S):
        names = ", ".join(map(str, behind))
        raise StateError(f"{names}: a transaction has been open for {patience_s:.0f} s")


def _committed(
    admin: AdminClient, config: Config, plan: Plan
) -> tuple[dict[str, Offsets], dict[str, Offsets]]:
    """Return the committed offsets of each keyed service, and where its state begins."""
    offsets_: dict[str, Offsets] = {}
    begins: dict[str, Offsets] = {}
    for service in plan.keyed_services():
        logs = {each.log for each in plan.of_service(service)}
        wanted = [at for at in log_partitions(admin, plan) if at.topic in logs]
        found = committed_positions(config, plan.group(service), wanted)
        offsets_[service] = _by_partition(found)
        names = [each.name for each in plan.of_service(service)]
        begins[service] = {
            Partition(tp.topic, tp.partition): _state_begin(tp, names) for tp in found
        }
    return offsets_, begins


def _state_begin(committed: TopicPartition, operators: Iterable[str]) -> int:
    """Return the offset at which the state of a commit begins, 0 without metadata.

    Raises:
        ConfigurationError: one of the operators is not at the commit.
    """
    if committed.offset < 0 or not committed.metadata:
        return 0
    at = Partition(committed.topic, committed.partition)
    past = decode(committed.metadata, LogProgress, str(at))
    for name in operators:
        if name in past.apart or not {name, ANY}.isdisjoint(past.behind):
            raise ConfigurationError(
                f"{at}: operator {name} has stopped, or has not caught up with its log: see the "
                "log of its service. --operator compares others"
            )
    return past.begun


def committed_offsets(config: Config, group: str, wanted: Sequence[Partition]) -> Offsets:
    """Return the committed offsets of a group, 0 for a partition without one."""
    return _by_partition(committed_positions(config, group, wanted))


def _by_partition(committed: Iterable[TopicPartition]) -> Offsets:
    return {Partition(tp.topic, tp.partition): max(tp.offset, 0) for tp in committed}


def committed_positions(
    config: Config, group: str, wanted: Sequence[Partition]
) -> list[TopicPartition]:
    """Return the committed offsets of a group with their metadata; offset -1 without a commit.

    Waits for transactions that commit offsets of the group.
    """
    return offline_group.committed_offsets(config, group, wanted, _WAIT_S)
