"""The scope of a reset, and the commit that drops the state of a keyed service.

See docs/operations.md, "Reset".  An operator starts afresh from an empty snapshot.  The snapshot
replaces all state and contains the offset of the log from which the operator continues.

* A service: the commit has a higher number than every record in the changelogs of the service.
* Some operators: each snapshot is a commit of its own.  The offset and the others stay.
"""

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.generations import (
    begun_generations,
    newest_generations,
    next_number,
    record_of,
)
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.progress import VERSION, LogProgress, MarkProgress, decode, encode
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import partition_counts, topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.announcements import progress_topics
from tidemark.runtime.keyed.changelog import OPERATOR_KEY, record
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.changelog import SNAPSHOT, Commit, Piece, encode_operator

_WAIT_S = 60.0

To = Literal["earliest", "latest"]


@dataclass(frozen=True)
class Scope:
    """What a reset resets: everything, one service, or ``only`` the operators of these names.

    ``to``: where they begin.
    """

    plan: Plan
    service: str | None = None
    only: tuple[str, ...] = ()
    to: To = "earliest"
    delete_results: bool = False

    def __post_init__(self) -> None:
        """Raise ConfigurationError if the pipeline has no such service or operator."""
        operators = [each.operator.name for each in self.plan.operators]
        services = self.plan.services()
        asked = [] if self.service is None else [("service", self.service, services)]
        for kind, name, known in [*asked, *(("operator", name, operators) for name in self.only)]:
            if name not in known:
                raise ConfigurationError(f"no {kind} {name!r}; there are {', '.join(known)}")

    @property
    def is_whole(self) -> bool:
        """Whether everything is reset: without ingest's log no service can keep its state."""
        return not self.only and self.service in (None, "ingest")

    def resets(self, each: OperatorPlan) -> bool:
        """Whether the state of an operator is dropped."""
        if self.only:
            return each.operator.name in self.only
        return self.is_whole or each.service == self.service

    @property
    def operators(self) -> list[OperatorPlan]:
        """The operators whose state is dropped."""
        return [each for each in self.plan.operators if self.resets(each)]

    @property
    def services(self) -> list[str]:
        """The services that must not run during the reset."""
        keyed = dict.fromkeys(each.service for each in self.operators)
        return ["ingest", *keyed] if self.is_whole else list(keyed)


def partitions_of(admin: AdminClient, topics: Iterable[str]) -> list[Partition]:
    """Return all partitions of topics."""
    counts = partition_counts(admin)
    return [Partition(name, n) for name in topics for n in range(counts[name])]


def live_keys(
    config: Config, admin: AdminClient, changelogs: Sequence[Partition]
) -> dict[Partition, list[bytes]]:
    """Return the keys of the live records of changelogs, without the ``operator`` record."""
    begins, ends = offsets(admin, changelogs, EARLIEST), offsets(admin, changelogs, LATEST)
    live: dict[Partition, dict[bytes, bool]] = {at: {} for at in changelogs}
    for message in read(config, {at: (begins[at], ends[at]) for at in changelogs}):
        at = Partition(message.topic() or "", message.partition() or 0)
        key = message.key() or b""
        if key != OPERATOR_KEY:
            live[at][key] = message.value() is not None
    return {at: [key for key, lives in keys.items() if lives] for at, keys in live.items()}


def number_of(key: bytes) -> int:
    """Return the commit number in the key of a changelog record."""
    return int(key.split(b"/")[1])


class FreshStart:
    """The reset of one keyed service: offsets to commit, and the changelog records for them."""

    def __init__(
        self,
        config: Config,
        admin: AdminClient,
        scope: Scope,
        service: str,
        begun: Mapping[Partition, int] | None = None,
    ) -> None:
        """Read the keys of the changelogs; write nothing.

        ``begun``: where states begin in the logs, if that is not where the services read on.
        """
        self._begun = begun or {}
        self.records: dict[Partition, list[Record]] = {}
        self._config, self._admin, self._scope = config, admin, scope
        self._group = scope.plan.group(service)
        self._operators = scope.plan.of_service(service)
        self._writer = f"reset-{secrets.token_hex(4)}"
        logs = dict.fromkeys(each.log for each in self._operators if scope.resets(each))
        partitions = partitions_of(admin, logs)
        self._ids = topic_ids(admin, logs)
        self._begins = offsets(admin, partitions, EARLIEST)
        self._ends = offsets(admin, partitions, LATEST)
        changelogs = [
            Partition(each.changelog, at.number)
            for at in self._begins
            for each in self._operators
            if each.log == at.topic
        ]
        self._keys = live_keys(config, admin, changelogs)

    def offsets(self) -> list[TopicPartition]:
        """Return the offsets to commit; fill ``records`` with the records to write with them."""
        begun = self._ends if self._scope.to == "latest" else self._begins
        pasts = self._pasts() if self._scope.only else {}
        unused = {at for at, (_, past) in pasts.items() if past is None}
        self.records[Partition(self._scope.plan.generations, 0)] = self._generations(
            {at: self._begun.get(at, offset) for at, offset in begun.items()}, unused
        )
        if self._scope.only:
            return list(self._of_operators(begun, pasts))
        moved = [
            TopicPartition(*at, start, metadata=encode(self._next(at, start)))
            for at, start in begun.items()
        ]
        return [*moved, *self._of_progress_topics()]

    def _of_progress_topics(self) -> Iterator[TopicPartition]:
        """Yield the ends of progress topics: reports and marks of earlier states are void."""
        topics = progress_topics(self._scope.plan, self._operators)
        ids = topic_ids(self._admin, topics)
        ends = offsets(self._admin, partitions_of(self._admin, topics), LATEST)
        for at, end in ends.items():
            yield TopicPartition(*at, end, metadata=encode(MarkProgress(VERSION, ids[at.topic])))

    def _generations(
        self, begun: Mapping[Partition, int], unused: Collection[Partition]
    ) -> list[Record]:
        """Return records that make all results so far void.

        ``begun``: where states begin.  ``unused``: log partitions of which nothing was taken yet.
        """
        before = newest_generations(self._config, self._admin, self._scope.plan.generations)
        plans = [each for each in self._operators if self._scope.resets(each)]
        numbers = {
            (plan.name, at.number): next_number(before.get((plan.name, at.number)), now_ms())
            for plan in plans
            for at in begun
        }
        made = begun_generations(self._admin, plans, begun, numbers)
        return [
            record_of(replace(each, unused=(each.log, each.partition) in unused))
            for each in made.values()
        ]

    def _next(self, at: Partition, start: int) -> LogProgress:
        """Add the records of a log partition's next commit; return the progress after it."""
        plans = [each for each in self._operators if each.log == at.topic]
        changelogs = [Partition(each.changelog, at.number) for each in plans]
        numbers = (number_of(key) for changelog in changelogs for key in self._keys[changelog])
        commit = Commit(max(numbers, default=0) + 1, self._writer)
        for changelog, each in zip(changelogs, plans, strict=True):
            self.records[changelog] = self._dropped(changelog, each, commit, start)
        snapshots = dict.fromkeys((each.name for each in plans), commit.sequence)
        return LogProgress(VERSION, self._ids[at.topic], *commit, start, snapshots=snapshots)

    def _pasts(self) -> dict[Partition, tuple[TopicPartition, LogProgress | None]]:
        """Return the committed offset of each log partition, and its progress if it has some."""
        found = committed_offsets(self._config, self._group, self._begins, _WAIT_S)
        pasts = {Partition(each.topic, each.partition): (each, self._past(each)) for each in found}
        return {
            at: (each, past if past and past.sequence else None)
            for at, (each, past) in pasts.items()
        }

    def _of_operators(
        self,
        begun: Mapping[Partition, int],
        pasts: Mapping[Partition, tuple[TopicPartition, LogProgress | None]],
    ) -> Iterator[TopicPartition]:
        """Yield the committed offsets, which stay, and add the records of the operators.

        Each operator gets a commit of its own, apart from that of its log partition.
        """
        for at, (committed, past) in pasts.items():
            plans = [
                each
                for each in self._operators
                if each.log == at.topic and self._scope.resets(each)
            ]
            if past is None:
                for plan in plans:
                    changelog = Partition(plan.changelog, at.number)
                    self.records[changelog] = self._emptied(changelog, plan)
                continue
            commit = Commit(past.sequence, self._writer)
            for plan in plans:
                changelog = Partition(plan.changelog, at.number)
                self.records[changelog] = self._dropped(changelog, plan, commit, begun[at])
            names = {plan.name for plan in plans}
            apart = {**past.apart, **dict.fromkeys(names, commit[:2])}
            snapshots = {name: each for name, each in past.snapshots.items() if name not in names}
            moved = replace(past, apart=apart, snapshots=snapshots)
            yield TopicPartition(*at, committed.offset, metadata=encode(moved))

    def _past(self, committed: TopicPartition) -> LogProgress | None:
        """Return the committed progress of a log partition; None without a commit."""
        at = Partition(committed.topic, committed.partition)
        if committed.offset < 0:
            return None
        text = committed.metadata
        past = decode(text, LogProgress, str(at)) if text else None
        if (
            past is None
            or past.handing_over
            or past.on_spark
            or past.topic_id != self._ids[at.topic]
        ):
            raise StateError(
                f"{at}: the committed offset does not name the state of the other operators; reset "
                "the whole service with --service"
            )
        return past

    def _dropped(
        self, changelog: Partition, plan: OperatorPlan, commit: Commit, start: int
    ) -> list[Record]:
        clocks = plan.operator.clocks().state()
        empty = Piece(SNAPSHOT, commit, 0, start, {}, clocks, last=True)
        return [*self._emptied(changelog, plan), record(empty)]

    def _emptied(self, changelog: Partition, plan: OperatorPlan) -> list[Record]:
        tombstones: list[Record] = [(key, None) for key in self._keys[changelog]]
        return [*tombstones, (OPERATOR_KEY, encode_operator(plan.state_signature))]
