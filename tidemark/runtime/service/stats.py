"""The stats record of a process: the JSON value that it writes to ``<pipeline>.stats``.

Counts are since the start of the process, so a reader that misses records loses nothing.  Times are
milliseconds UTC.  Values that are not known yet are null, and a null is as a field that is absent.
The fields are those of ``schemas/stats.avsc`` (docs/operations.md, "Stats").
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import FOREVER_MS, NEVER_MS
from tidemark.partition import Partition
from tidemark.runtime.service.histogram import Count, HistogramStats
from tidemark.runtime.service.reasons import ReasonStats

VERSION = 1
_YEAR_10000_MS = 253_402_300_800_000

Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
SourceName = Annotated[str, msgspec.Meta(pattern=r"^op:[^/]+$|/[0-9]{1,9}$")]
"""``topic/number``, or an operator as ``operator_source`` names it"""


class PartitionStats(msgspec.Struct, frozen=True):
    """A partition that this process reads: its committed offset, its ends and the lag.

    ``end`` counts open transactions, ``stable_end`` (the last stable offset) does not.  ``lag`` is
    the distance to ``stable_end``: what a reader of committed records has still to process.
    Commits step over transaction markers, so it is 0 at the end.
    """

    topic: str
    partition: Number
    committed: Number = 0
    end: Number | None = None
    lag: Number | None = None
    stable_end: Number | None = None

    @property
    def open(self) -> int:
        """The number of offsets that open transactions keep from readers."""
        if self.end is None or self.stable_end is None:
            return 0
        return max(0, self.end - self.stable_end)


class SourceStats(msgspec.Struct, frozen=True):
    """A raw partition, as ingest reads it, or a source as an operator's clock knows it.

    ``silent_since_ms``: the time of the last record; only ingest knows it.  ``loading``: how many
    records of a table are still to be read before its watermark counts, at most.
    ``load_failures``: how many loads of a static table have failed.
    """

    source: SourceName
    watermark_ms: Number | None = None
    idle: bool = False
    silence_ms: Number = 0
    silent_since_ms: Number | None = None
    loading: Number = 0
    load_failures: Number = 0


class ClockStats(msgspec.Struct, frozen=True):
    """The clock of an operator on one log partition.

    ``held_by``: the source that it waits for, null if all are silent.  ``unmoved_since_ms``: when
    this process last saw it move; FOREVER_MS if that is not known.
    ``active_rules``: rules that count, null without rules.  ``oldest_begin_ms``, ``oldest_end_ms``:
    bounds of the open window that began first.  ``ages``: the number of windows in each bucket of
    ``BOUNDS_MS``, by age, and above the last one; empty while no age is known.
    """

    partition: Number
    clock_ms: Number | None = None
    unmoved_since_ms: Number = FOREVER_MS
    held_by: str | None = None
    open_windows: Number = 0
    state_bytes: Number = 0
    active_rules: Number | None = None
    oldest_begin_ms: Number | None = None
    oldest_end_ms: Number | None = None
    ages: list[Count] = []


class OperatorStats(msgspec.Struct, frozen=True):
    """An operator on all log partitions of this process.

    ``sources``: those of its lowest clock.  ``duplicates``: rows that ``distinct_by`` left out.
    ``late_reasons``: why rows are late.  ``late_by``: by how much; only rows that are
    late by their time.
    """

    operator: str
    log: str = ""
    rows: Number = 0
    late: Number = 0
    panes: Number = 0
    clocks: list[ClockStats] = []
    sources: list[SourceStats] = []
    duplicates: Number = 0
    late_reasons: list[ReasonStats] = []
    late_by: HistogramStats = HistogramStats()


class RestoreStats(msgspec.Struct, frozen=True):
    """A restore of a changelog partition, or a replay of a log partition, in offsets.

    ``left_s``: estimated seconds left.
    """

    topic: str
    partition: Number
    done: Number = 0
    total: Number = 0
    left_s: float | None = None


class CommitStats(msgspec.Struct, frozen=True):
    """Commits since the start and their durations; ``longest_ms``: since the last stats record."""

    count: Number = 0
    total_ms: float = 0.0
    last_ms: float = 0.0
    longest_ms: float = 0.0
    durations: HistogramStats = HistogramStats()


class RateStats(msgspec.Struct, frozen=True):
    """Counts per second since the record before."""

    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0


class WaitStats(msgspec.Struct, frozen=True):
    """What the process has waited for: time since the start, shares since the record before.

    ``input``: for records.  ``broker``: for commits, or for any broker.  ``sink``: for the system
    that takes the results.  The rest of the time is work.
    """

    input_ms: float = 0.0
    broker_ms: float = 0.0
    sink_ms: float = 0.0
    input_share: float = 0.0
    broker_share: float = 0.0
    sink_share: float = 0.0


class LatencyStats(msgspec.Struct, frozen=True):
    """From the event time of results to their commit; ``of``: the operator, or the sink's table."""

    of: str
    histogram: HistogramStats = HistogramStats()


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """One stats record: what a process has done, how far it is, and what it waits for.

    ``interval_ms``: time until the next record.  ``stopped``: the process ends in order after this
    record.  ``bytes_in``, ``bytes_out``: keys and values read and written, before compression.
    ``rebalances``: how often partitions have come or gone.
    """

    version: Number = VERSION
    pipeline: str
    service: str
    slot: str
    at_ms: Number
    started_at_ms: Number
    ready: bool = False
    reasons: list[str] = []
    rows_in: Number = 0
    rows_out: Number = 0
    filtered: Number = 0
    late: Number = 0
    dead_letters: Number = 0
    lag: Number | None = None
    commits: CommitStats = CommitStats()
    partitions: list[PartitionStats] = []
    sources: list[SourceStats] = []
    operators: list[OperatorStats] = []
    restores: list[RestoreStats] = []
    converted: Number = 0
    interval_ms: Number = 1_000
    stopped: bool = False
    bytes_in: Number = 0
    bytes_out: Number = 0
    rates: RateStats = RateStats()
    waits: WaitStats = WaitStats()
    latencies: list[LatencyStats] = []
    dead_reasons: list[ReasonStats] = []
    rebalances: Number = 0
    rebalanced_at_ms: Number | None = None
    replays: list[RestoreStats] = []


@dataclass(frozen=True)
class Account:
    """The part of the stats that comes from the work.

    ``ends``: known ends of its partitions, with open transactions; ``stable_ends``: without them.
    ``behind``: the next offset of a part of the work that is behind the committed offset, by
    partition.  ``bytes_out``: bytes written past the outbox of the process.
    """

    rows_in: int
    rows_out: int
    ends: Mapping[Partition, int]
    stable_ends: Mapping[Partition, int]
    behind: Mapping[Partition, int] = field(default_factory=dict)
    filtered: int = 0
    converted: int = 0
    late: int = 0
    dead_letters: int = 0
    sources: list[SourceStats] = field(default_factory=list)
    operators: list[OperatorStats] = field(default_factory=list)
    restores: list[RestoreStats] = field(default_factory=list)
    latencies: list[LatencyStats] = field(default_factory=list)
    dead_reasons: list[ReasonStats] = field(default_factory=list)
    bytes_out: int = 0


NOTHING = Account(0, 0, {}, {})
"""The account of a process that has not begun its work."""


def partition_stats(
    ends: Mapping[Partition, int],
    stable_ends: Mapping[Partition, int],
    committed: Mapping[Partition, int],
) -> list[PartitionStats]:
    """Return committed offset, ends and lag of each partition, in order."""
    shown = []
    for at, offset in sorted(committed.items()):
        stable = stable_ends.get(at)
        lag = None if stable is None else max(0, stable - offset)
        shown.append(PartitionStats(at.topic, at.number, offset, ends.get(at), lag, stable))
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
    """Return the stats in the value of a record; a null counts as an absent field.

    Raises:
        msgspec.DecodeError: the value is not a stats record.
    """
    if value is None:
        raise msgspec.DecodeError("the value is null")
    try:
        try:
            return msgspec.json.decode(value, type=Stats)
        except msgspec.ValidationError:
            return msgspec.convert(_without_nulls(msgspec.json.decode(value)), Stats)
    except RecursionError:
        raise msgspec.DecodeError("the value is nested too deeply") from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value if each is not None]
    return value
