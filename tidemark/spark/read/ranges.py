"""The offset ranges of log partitions that a replay reads: resolved once, then fixed.

Spark reads explicit offsets of every partition.  The end is below every open transaction, so no
task waits.  The first offset must exist, so no record is missing without an error.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.plan.physical import LogPlan, Plan
from tidemark.runtime.archive.archive import Archive, ArchiveFile, covered, tiled
from tidemark.runtime.client.consumer import EARLIEST, committed_ends, offsets
from tidemark.runtime.client.topics import partition_counts, require

Offsets = Mapping[Partition, int]


@dataclass(frozen=True)
class Ranges:
    """First offset and end of every log partition, sorted; ends are exclusive.

    ``archived``: archive files with the first segments of some log partitions.  They are cut so
    that they overlap neither each other nor the rest of the range in the topic.
    """

    begins: Offsets
    ends: Offsets
    archived: tuple[ArchiveFile, ...] = ()

    @property
    def of_topics(self) -> "Ranges":
        """The ranges that are read from the topics, not from the archive, without empty ones."""
        begins = dict(self.begins)
        for file in self.archived:
            begins[file.at] = max(begins[file.at], file.end)
        filled = [at for at, end in self.ends.items() if end > begins[at]] or list(self.ends)
        return Ranges({at: begins[at] for at in filled}, {at: self.ends[at] for at in filled})

    def to(self, ends: Offsets, begins: Offsets | None = None) -> "Ranges":
        """Return the ranges of the partitions in ``ends``, up to these ends.

        Args:
            ends: the end by log partition.
            begins: raises the first offset of the partitions that it names.
        """
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
        """The number of offsets; it includes control records of the broker."""
        return sum(self.ends[at] - self.begins[at] for at in self.ends)


def resolve(
    admin: AdminClient,
    plan: Plan,
    begins: Offsets | None = None,
    ends: Offsets | None = None,
    archive: Archive | None = None,
    made: Sequence[LogPlan] = (),
) -> Ranges:
    """Return the ranges to read of the logs of a plan.

    Args:
        admin: of the broker.
        plan: the plan.
        begins: first offsets; 0 for a partition that it does not name.
        ends: ends; the committed end for a partition that it does not name.
        archive: holds segments that the topics no longer have.
        made: logs that a replay makes; those that do not exist have empty ranges.

    Raises:
        StateError: records of a range do not exist.  The message names partition and offsets.
        ConfigurationError: a partition is not of these logs, or an end is beyond the end of its
            log.
    """
    logs = log_partitions(admin, plan, made)
    for wanted in (begins or {}, ends or {}):
        for at in wanted.keys() - set(logs):
            raise ConfigurationError(
                f"{at} is not a partition of a log of pipeline {plan.pipeline}"
            )
    first, last = offsets(admin, logs, EARLIEST), committed_ends(admin, logs)
    found = Ranges(
        {at: (begins or {}).get(at, 0) for at in logs},
        {at: (ends or {}).get(at, last[at]) for at in logs},
    )
    archived: list[ArchiveFile] = []
    for at in found.partitions:
        archived += _require_there(at, found, first[at], last[at], archive)
    there = {at.topic for at in logs}
    absent = [
        Partition(log.topic, number)
        for log in made
        if log.topic not in there
        for number in range(log.partitions)
    ]
    nothing = dict.fromkeys(absent, 0)
    return Ranges({**found.begins, **nothing}, {**found.ends, **nothing}, tuple(archived))


def log_partitions(admin: AdminClient, plan: Plan, made: Sequence[LogPlan] = ()) -> list[Partition]:
    """Return every partition of the logs that the operators of a plan read.

    ``made``: logs that may not exist.

    Raises:
        ConfigurationError: a log does not exist.
    """
    names = {operator.log for operator in plan.operators}
    if made:
        there = partition_counts(admin)
        names -= {log.topic for log in made if log.topic not in there}
    counts = require(admin, sorted(names))
    return [Partition(topic, number) for topic, n in counts.items() for number in range(n)]


def _require_there(
    at: Partition, ranges: Ranges, first: int, last: int, archive: Archive | None
) -> list[ArchiveFile]:
    """Check that a range exists; return the part of it that is read from the archive."""
    begin, end = ranges.begins[at], ranges.ends[at]
    if not begin <= end <= last:
        raise ConfigurationError(
            f"{at}: {begin} to {end} is not a range of the log, which ends at {last}"
        )
    if begin >= min(first, end):
        return []
    files = [] if archive is None else [f for f in archive.files(at.topic) if f.at == at]
    tiles = tiled(files, begin, end)
    reached = tiles[-1].end if tiles else begin
    if reached < min(first, end):
        raise StateError(
            f"{at}: offset {reached} is gone, the topic begins at {first}: records were deleted. "
            f"{_coverage(archive, files)}"
        )
    return tiles


def _coverage(archive: Archive | None, files: Sequence[ArchiveFile]) -> str:
    """Return a sentence: what the archive has of a log partition, or the remedy without one."""
    if archive is None:
        return (
            "--archive reads deleted records from an archive; --from-offsets earliest replays the "
            "rest alone, with other results than the whole log"
        )
    if not files:
        return f"The archive {archive} has no records of it"
    ranges = ", ".join(f"{begin} to {end}" for begin, end in covered(files))
    return f"The archive {archive} has {ranges}"


def earliest(admin: AdminClient, plan: Plan, made: Sequence[LogPlan] = ()) -> dict[Partition, int]:
    """Return the first offset that exists in every log partition."""
    return offsets(admin, log_partitions(admin, plan, made), EARLIEST)


def as_of(
    admin: AdminClient, plan: Plan, at_ms: int, made: Sequence[LogPlan] = ()
) -> dict[Partition, int]:
    """Return the ends of the logs at a time (ms) of the broker's clock."""
    logs = log_partitions(admin, plan, made)
    spec = OffsetSpec.for_timestamp(at_ms)
    later, now = offsets(admin, logs, spec), committed_ends(admin, logs)
    return {at: min(later[at], now[at]) if later[at] >= 0 else now[at] for at in logs}


def parse(text: str) -> dict[Partition, int]:
    """Parse offsets in Spark's format, ``{"topic": {"0": 12, "1": 7}}``.

    Raises:
        ConfigurationError: the text does not have this format.
    """
    try:
        return {
            Partition(topic, int(number)): int(offset)
            for topic, numbers in json.loads(text).items()
            for number, offset in numbers.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ConfigurationError(
            f'offsets {text!r} do not have the form {{"topic": {{"0": 12, "1": 7}}}}'
        ) from None


def as_json(of: Offsets) -> str:
    """Return offsets in the format of ``parse``."""
    topics: dict[str, dict[str, int]] = {}
    for at, offset in sorted(of.items()):
        topics.setdefault(at.topic, {})[str(at.number)] = offset
    return json.dumps(topics)
