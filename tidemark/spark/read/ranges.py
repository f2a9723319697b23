"""Which records of which log partitions a replay reads: resolved once, then fixed.

Spark is given explicit offsets of every partition.  The end is below every transaction that is
still open, so nothing waits; the start must be there, so nothing is left out unseen.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.archive.archive import Archive, ArchiveFile, covered, tiled
from tidemark.runtime.client.clients import when_known
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.topics import require

_ANSWER_S = 10.0

Offsets = Mapping[Partition, int]


@dataclass(frozen=True)
class Ranges:
    """First offset and end of every log partition, sorted; ends are exclusive.

    ``archived``: files that hold what comes first of some log partitions, cut so that neither they
    nor the topic behind them overlap.
    """

    begins: Offsets
    ends: Offsets
    archived: tuple[ArchiveFile, ...] = ()

    @property
    def of_topics(self) -> "Ranges":
        """What is read of the topics themselves."""
        begins = dict(self.begins)
        for file in self.archived:
            begins[file.at] = max(begins[file.at], file.end)
        return Ranges(begins, self.ends)

    def to(self, ends: Offsets, begins: Offsets | None = None) -> "Ranges":
        """Return the ranges of some log partitions, to other ends, and from other begins on."""
        begins = {at: max(self.begins[at], (begins or {}).get(at, 0)) for at in ends}
        bounded = {at: max(end, begins[at]) for at, end in ends.items()}
        files = (
            replace(
                file,
                begin=max(file.begin, begins[file.at]),
                end=min(file.end, bounded[file.at]),
            )
            for file in self.archived
            if file.at in bounded
        )
        return Ranges(begins, bounded, tuple(file for file in files if file.begin < file.end))

    @property
    def partitions(self) -> list[Partition]:
        """The log partitions, in order."""
        return sorted(self.ends)

    @property
    def length(self) -> int:
        """Count the offsets; the broker's own records are among them."""
        return sum(self.ends[at] - self.begins[at] for at in self.ends)


def resolve(
    admin: AdminClient,
    plan: Plan,
    begins: Offsets | None = None,
    ends: Offsets | None = None,
    archive: Archive | None = None,
) -> Ranges:
    """Return what to read of the logs of a plan: by default from offset 0 to the committed end.

    ``begins`` and ``ends`` need not name every partition.  What a topic does not have any more is
    read from ``archive``, as far as that goes; then from the topic.

    Raises:
        StateError: records of a range are not there; names topic, partition and offsets.
        ConfigurationError: a partition that is none of the logs', or an end beyond the log's.
    """
    logs = log_partitions(admin, plan)
    for wanted in (begins or {}, ends or {}):
        for at in wanted.keys() - set(logs):
            raise ConfigurationError(f"{at} is no partition of a log of pipeline {plan.pipeline}")
    first, last = offsets(admin, logs, EARLIEST), committed_ends(admin, logs)
    found = Ranges(
        {at: (begins or {}).get(at, 0) for at in logs},
        {at: (ends or {}).get(at, last[at]) for at in logs},
    )
    archived: list[ArchiveFile] = []
    for at in found.partitions:
        archived += _require_there(at, found, first[at], last[at], archive)
    return replace(found, archived=tuple(archived))


def log_partitions(admin: AdminClient, plan: Plan) -> list[Partition]:
    """Return every partition of the logs that the operators of a plan read.

    Raises:
        ConfigurationError: a log does not exist.
    """
    counts = require(admin, sorted({operator.log for operator in plan.operators}))
    return [Partition(topic, number) for topic, n in counts.items() for number in range(n)]


def committed_ends(admin: AdminClient, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return the ends of what readers of committed records see now."""
    wanted = {TopicPartition(*at): LATEST for at in partitions}

    def ask() -> dict[Partition, int]:
        asked = admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ANSWER_S
        )
        return {Partition(tp.topic, tp.partition): f.result().offset for tp, f in asked.items()}

    return when_known(ask)


def _require_there(
    at: Partition, ranges: Ranges, first: int, last: int, archive: Archive | None
) -> list[ArchiveFile]:
    """Check that a range can be read; return what of it is read from the archive."""
    begin, end = ranges.begins[at], ranges.ends[at]
    if not begin <= end <= last:
        raise ConfigurationError(f"{at}: no range {begin} to {end}; the log ends at {last}")
    if begin >= min(first, end):
        return []
    files = [] if archive is None else [f for f in archive.files(at.topic) if f.at == at]
    tiles = tiled(files, begin, end)
    reached = tiles[-1].end if tiles else begin
    if reached < min(first, end):
        raise StateError(
            f"{at}: offset {reached} is wanted, the first there is {first}: records were deleted. "
            f"{_coverage(archive, files)}"
        )
    return tiles


def _coverage(archive: Archive | None, files: Sequence[ArchiveFile]) -> str:
    """Say what an archive has of a log partition, or what can be done without one."""
    if archive is None:
        return (
            "What is left gives other results than the whole log; --from-offsets earliest takes "
            "it, --archive reads what an archive has of the rest"
        )
    if not files:
        return f"The archive {archive} has nothing of it"
    ranges = ", ".join(f"{begin} to {end}" for begin, end in covered(files))
    return f"The archive {archive} has {ranges}"


def earliest(admin: AdminClient, plan: Plan) -> dict[Partition, int]:
    """Return the first offset that is there of every log partition."""
    return offsets(admin, log_partitions(admin, plan), EARLIEST)


def as_of(admin: AdminClient, plan: Plan, at_ms: int) -> dict[Partition, int]:
    """Return where the logs ended at a moment of the broker's clock."""
    logs = log_partitions(admin, plan)
    spec = OffsetSpec.for_timestamp(at_ms)
    later, now = offsets(admin, logs, spec), committed_ends(admin, logs)
    return {at: min(later[at], now[at]) if later[at] >= 0 else now[at] for at in logs}


def parse(text: str) -> dict[Partition, int]:
    """Read offsets as Spark writes them: ``{"topic": {"0": 12, "1": 7}}``.

    Raises:
        ConfigurationError: the text is something else.
    """
    try:
        return {
            Partition(topic, int(number)): int(offset)
            for topic, numbers in json.loads(text).items()
            for number, offset in numbers.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ConfigurationError(
            f'offsets {text!r} are not written as {{"topic": {{"0": 12, "1": 7}}}}'
        ) from None


def as_json(of: Offsets) -> str:
    """Write offsets as Spark reads them."""
    topics: dict[str, dict[str, int]] = {}
    for at, offset in sorted(of.items()):
        topics.setdefault(at.topic, {})[str(at.number)] = offset
    return json.dumps(topics)
