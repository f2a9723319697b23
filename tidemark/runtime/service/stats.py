"""The stats record of a process: the JSON value that it writes to ``<pipeline>.stats``.

Counts are since the start of the process, so a reader that misses records loses nothing.  Times are
milliseconds UTC.  Values that are not known yet are null.  The fields are those of
``schemas/stats.avsc`` (docs/operations.md, "Stats").
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS
from tidemark.partition import Partition

VERSION = 1
_YEAR_10000_MS = 253_402_300_800_000

Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
SourceName = Annotated[str, msgspec.Meta(pattern=r"^op:[^/]+$|/[0-9]{1,9}$")]
"""``topic/number``, or an operator as ``operator_source`` names it"""


class PartitionStats(msgspec.Struct, frozen=True):
    """A partition that this process reads: its committed offset, its end and the lag.

    ``end`` counts open transactions, and commits step over transaction markers.  So ``lag`` is 0 if
    and only if everything in the partition is processed and committed.
    """

    topic: str
    partition: Number
    committed: Number
    end: Number | None
    lag: Number | None


class SourceStats(msgspec.Struct, frozen=True):
    """A raw partition, as ingest reads it, or a source as an operator's clock knows it.

    ``silent_since_ms``: the time of the last record; only ingest knows it.  ``loading``: how many
    records of a table are still to be read before its watermark counts, at most.
    ``load_failures``: how many loads of a static table have failed.
    """

    source: SourceName
    watermark_ms: Number | None
    idle: bool
    silence_ms: Number
    silent_since_ms: Number | None = None
    loading: Number = 0
    load_failures: Number = 0


class ClockStats(msgspec.Struct, frozen=True):
    """The clock of an operator on one log partition.

    ``held_by``: the source that it waits for, null if all are silent.  ``unmoved_since_ms``: when
    this process last saw it move.
    """

    partition: Number
    clock_ms: Number | None
    unmoved_since_ms: Number
    held_by: str | None
    open_windows: Number
    state_bytes: Number


class OperatorStats(msgspec.Struct, frozen=True):
    """An operator on all log partitions of this process.

    ``sources``: those of its lowest clock.  ``duplicates``: rows that ``distinct_by`` left out.
    """

    operator: str
    log: str
    rows: Number
    late: Number
    panes: Number
    clocks: list[ClockStats]
    sources: list[SourceStats]
    duplicates: Number = 0


class RestoreStats(msgspec.Struct, frozen=True):
    """A restore of one changelog partition, in offsets; ``left_s``: estimated seconds left."""

    topic: str
    partition: Number
    done: Number
    total: Number
    left_s: float | None


class CommitStats(msgspec.Struct, frozen=True):
    """Commits since the start and their durations; ``longest_ms``: since the last stats record."""

    count: Number
    total_ms: float
    last_ms: float
    longest_ms: float


class Stats(msgspec.Struct, frozen=True):
    """One stats record: what a process has done, how far it is, and what it waits for.

    ``interval_ms``: time until the next record.  ``stopped``: the process ends in order after this
    record.
    """

    version: Number
    pipeline: str
    service: str
    slot: str
    at_ms: Number
    started_at_ms: Number
    ready: bool
    reasons: list[str]
    rows_in: Number
    rows_out: Number
    filtered: Number
    late: Number
    dead_letters: Number
    lag: Number | None
    commits: CommitStats
    partitions: list[PartitionStats]
    sources: list[SourceStats]
    operators: list[OperatorStats]
    restores: list[RestoreStats]
    converted: Number = 0
    interval_ms: Number = 1_000
    stopped: bool = False


@dataclass(frozen=True)
class Account:
    """The part of the stats that comes from the work.

    ``ends``: known ends of its partitions.  ``behind``: the next offset of a part of the work that
    is behind the committed offset, by partition.
    """

    rows_in: int
    rows_out: int
    ends: Mapping[Partition, int]
    behind: Mapping[Partition, int] = field(default_factory=dict)
    filtered: int = 0
    converted: int = 0
    late: int = 0
    dead_letters: int = 0
    sources: list[SourceStats] = field(default_factory=list)
    operators: list[OperatorStats] = field(default_factory=list)
    restores: list[RestoreStats] = field(default_factory=list)


def partition_stats(
    ends: Mapping[Partition, int], committed: Mapping[Partition, int]
) -> list[PartitionStats]:
    """Return committed offset, end and lag of each partition, in order."""
    shown = []
    for at, offset in sorted(committed.items()):
        end = ends.get(at)
        lag = None if end is None else max(0, end - offset)
        shown.append(PartitionStats(at.topic, at.number, offset, end, lag))
    return shown


def total_lag(partitions: Iterable[PartitionStats]) -> int | None:
    """Return the sum of the lags, None while one of them is not known."""
    lags = [each.lag for each in partitions]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def instant(at_ms: int) -> int | None:
    """Return an event time in ms, or None before the first one and after the end of input."""
    return None if at_ms in (NEVER_MS, FOREVER_MS) else at_ms


def instant_text(at_ms: int) -> str:
    """Return an event time in ms as text; "-" before the first one."""
    if not 0 <= at_ms < _YEAR_10000_MS:
        return "-" if at_ms == NEVER_MS else str(at_ms)
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def clock_sources(clocks: ClockTable) -> list[SourceStats]:
    """Return the sources of a clock, by name."""
    return [
        SourceStats(name, instant(source.effective_ms), source.idle, source.silence_ms)
        for name, source in sorted(clocks.sources.items())
    ]


def encode(stats: Stats) -> bytes:
    """Return the value of a stats record."""
    return msgspec.json.encode(stats)


def decode(value: bytes | None) -> Stats:
    """Return the stats in the value of a record.

    Raises:
        msgspec.DecodeError: the value is not a stats record.
    """
    if value is None:
        raise msgspec.DecodeError("the value is null")
    try:
        return msgspec.json.decode(value, type=Stats)
    except RecursionError:
        raise msgspec.DecodeError("the value is nested too deeply") from None
