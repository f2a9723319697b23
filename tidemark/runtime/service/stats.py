"""What a process says of itself once a second: the value of ``<pipeline>.stats``, as JSON.

Counts are since the start of the process, so that a reader who missed some records loses nothing.
Times are milliseconds UTC; what nobody knows yet is null.  The fields are those of
``schemas/stats.avsc`` (docs/operations.md, "Stats").
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS
from tidemark.partition import Partition

VERSION = 1


class PartitionStats(msgspec.Struct, frozen=True):
    """A partition that this process reads, and what lies behind its last commit.

    ``end`` counts transactions that are still open, and commits step over their markers.  So
    ``lag`` is 0 if and only if all there is has been worked off and committed.
    """

    topic: str
    partition: int
    committed: int
    end: int | None
    lag: int | None


class SourceStats(msgspec.Struct, frozen=True):
    """A raw partition, as ingest reads it or as an operator's clock knows it.

    ``silent_since_ms``: when the last record came, known to ingest only.
    """

    source: str
    watermark_ms: int | None
    idle: bool
    silence_ms: int
    silent_since_ms: int | None = None


class ClockStats(msgspec.Struct, frozen=True):
    """The clock of an operator on one log partition.

    ``held_by``: the source that it waits for, null where all are silent; ``unmoved_since_ms``: when
    this process last saw it move.
    """

    partition: int
    clock_ms: int | None
    unmoved_since_ms: int
    held_by: str | None
    open_windows: int
    state_bytes: int


class OperatorStats(msgspec.Struct, frozen=True):
    """An operator on all log partitions of this process; ``sources``: at its lowest clock."""

    operator: str
    log: str
    rows: int
    late: int
    panes: int
    clocks: list[ClockStats]
    sources: list[SourceStats]


class RestoreStats(msgspec.Struct, frozen=True):
    """A changelog partition that is being read back, in offsets; ``left_s``: an estimate."""

    topic: str
    partition: int
    done: int
    total: int
    left_s: float | None


class CommitStats(msgspec.Struct, frozen=True):
    """Commits since the start, and how long they took; ``longest_ms`` since the last record."""

    count: int
    total_ms: float
    last_ms: float
    longest_ms: float


class Stats(msgspec.Struct, frozen=True):
    """One record: what a process did, how far it is, and what it waits for."""

    version: int
    pipeline: str
    service: str
    slot: str
    at_ms: int
    started_at_ms: int
    ready: bool
    reasons: list[str]
    rows_in: int
    rows_out: int
    filtered: int
    late: int
    dead_letters: int
    lag: int | None
    commits: CommitStats
    partitions: list[PartitionStats]
    sources: list[SourceStats]
    operators: list[OperatorStats]
    restores: list[RestoreStats]


@dataclass(frozen=True)
class Account:
    """What only the work of a process knows; ``ends``: of its partitions, as far as known."""

    rows_in: int
    rows_out: int
    ends: Mapping[Partition, int]
    filtered: int = 0
    late: int = 0
    dead_letters: int = 0
    sources: list[SourceStats] = field(default_factory=list)
    operators: list[OperatorStats] = field(default_factory=list)
    restores: list[RestoreStats] = field(default_factory=list)


def partition_stats(
    ends: Mapping[Partition, int], committed: Mapping[Partition, int]
) -> list[PartitionStats]:
    """Return how far each partition is worked off."""
    shown = []
    for at, offset in sorted(committed.items()):
        end = ends.get(at)
        lag = None if end is None else max(0, end - offset)
        shown.append(PartitionStats(at.topic, at.number, offset, end, lag))
    return shown


def total_lag(partitions: Iterable[PartitionStats]) -> int | None:
    """Add up lag; null while that of one partition is not known."""
    lags = [each.lag for each in partitions]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def instant(at_ms: int) -> int | None:
    """Return an event time, null where there is none yet."""
    return None if at_ms in (NEVER_MS, FOREVER_MS) else at_ms


def clock_sources(clocks: ClockTable) -> list[SourceStats]:
    """Return what a clock knows of its sources."""
    return [
        SourceStats(name, instant(source.effective_ms), source.idle, source.silence_ms)
        for name, source in sorted(clocks.sources.items())
    ]


def encode(stats: Stats) -> bytes:
    """Return a record's value."""
    return msgspec.json.encode(stats)


def decode(value: bytes) -> Stats:
    """Read a record's value.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return msgspec.json.decode(value, type=Stats)
