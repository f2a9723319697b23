"""The sources that hold clocks: which clocks, since when, and why they do not move on.  Pure.

A clock stands when the partition that it waits for is silent, and then results wait.  So a source
is named long before it is an alert.  See docs/monitor.md, "Dataflow".
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tidemark.core.time.segment import FOREVER_MS, is_operator_source, shown_source
from tidemark.runtime.service.stats import ClockStats, PartitionStats, SourceStats

Json = dict[str, Any]

Ingest = Mapping[str, tuple[SourceStats, PartitionStats | None]]
"""Ingest's stats of raw partitions by name: of the source, and of the topic's partition."""

HELD_MS = 3_000
"""A source that holds clocks for less time need not be named: partitions hold them in turn."""


def why(clock: ClockStats, ingest: Ingest, now_ms: int) -> str:
    """Return a sentence that says what a clock waits for."""
    if clock.held_by is None:
        return "all sources are silent"
    stands_ms = max(0, now_ms - clock.unmoved_since_ms)
    held = f"{shown_source(clock.held_by)} holds it for {stands_ms // 1000} s"
    cause = _cause(clock.held_by, clock.clock_ms, stands_ms, ingest, now_ms)
    return f"{held}: {cause}" if cause else held


def holders(clocks: Iterable[Json], ingest: Ingest, now_ms: int) -> list[Json]:
    """Return the sources that hold clocks, the longest time first.

    ``clocks``: of processes that are not silent, as the status has them.  Each source has
    ``source``, ``since_ms``, ``operators``, the numbers of ``clocks`` and ``open_windows`` that
    wait, and ``text``.
    """
    held: dict[str, list[Json]] = {}
    for clock in clocks:
        if clock["held_by"] is not None and clock["unmoved_since_ms"] != FOREVER_MS:
            held.setdefault(clock["held_by"], []).append(clock)
    found = [_holder(source, its, ingest, now_ms) for source, its in held.items()]
    return sorted(found, key=lambda each: (each["since_ms"], each["source"]))


def _holder(source: str, clocks: list[Json], ingest: Ingest, now_ms: int) -> Json:
    since_ms = min(clock["unmoved_since_ms"] for clock in clocks)
    operators = sorted({clock["operator"] for clock in clocks})
    windows = sum(clock["open_windows"] for clock in clocks)
    times = [clock["clock_ms"] for clock in clocks if clock["clock_ms"] is not None]
    cause = _cause(source, min(times, default=None), now_ms - since_ms, ingest, now_ms)
    return {
        "source": source,
        "since_ms": since_ms,
        "operators": operators,
        "clocks": len(clocks),
        "open_windows": windows,
        "text": f"{cause or 'it does not move'}; {windows} windows wait",
    }


def _cause(name: str, clock_ms: int | None, stands_ms: int, ingest: Ingest, now_ms: int) -> str:
    """Return why a source does not move a clock; "" if that is not known."""
    if is_operator_source(name):
        return ""
    if name not in ingest:
        return "no ingest process reads it"
    source, read = ingest[name]
    if source.loading:
        return f"it is a table that is loaded, at most {source.loading} records are left"
    if read is not None and read.lag:
        return f"ingest has still to read {read.lag} records of it"
    if read is not None and read.open:
        return f"a transaction of its producer is open, with {read.open} records"
    watermark_ms = source.watermark_ms
    if clock_ms is not None and watermark_ms is not None and watermark_ms > clock_ms:
        return "its watermark has moved on, and the operator has still to read its rows"
    if source.silent_since_ms is None:
        return ""
    silence_ms = max(0, now_ms - source.silent_since_ms)
    if silence_ms < HELD_MS <= stands_ms:
        return (
            "its records become dead letters, or have no event time"
            if source.watermark_ms is None
            else "its records do not move its watermark"
        )
    return f"no record came for {silence_ms // 1000} s"
