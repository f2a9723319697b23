"""Cases about time alone: the watermark and idleness of a source, the clock over several sources.

They publish nothing.  Their results are read from the watermark functions and the clock table.
"""

from typing import Any

import numpy as np

from tidemark.conformance.case import Case, ConformanceError, Fields
from tidemark.conformance.feed import FAR_MS, stated_ms
from tidemark.core.aggregates.constructors import count
from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import NEVER_MS, Segment, SourceMark
from tidemark.core.time.watermark import monotonic, watermark_of, watermarks_before
from tidemark.ingest.silence import Silence, to_mark
from tidemark.language.pipeline import Pipeline
from tidemark.language.windows import tumbling
from tidemark.partition import Partition
from tidemark.plan.physical import Plan

Results = list[dict[str, Any]]

TOPIC = "in"


class SourceWatermark:
    """The watermark of one source, from the event times added so far."""

    def __init__(self, delay_ms: int, watermark_ms: int = NEVER_MS) -> None:
        """Start with a watermark, which events never lower."""
        self._delay_ms = delay_ms
        self._largest_ms = NEVER_MS
        self.watermark_ms = watermark_ms

    def add_event(self, at_ms: int) -> None:
        """Add the event time of one event."""
        times, counts = np.array([at_ms], np.int64), np.array([True])
        _, self._largest_ms = watermarks_before(times, counts, self._largest_ms, self._delay_ms)
        self.watermark_ms = max(self.watermark_ms, watermark_of(self._largest_ms, self._delay_ms))


class CombinedClock:
    """The watermarks and idleness of several sources, combined by an operator's clock."""

    def __init__(self, partitions: int) -> None:
        """Start without any mark of the partitions."""
        self._table = ClockTable([TOPIC])
        self._partitions = {TOPIC: partitions}
        self._watermarks = [NEVER_MS] * partitions
        self._awake = [True] * partitions

    @property
    def clock_ms(self) -> int:
        """The clock after all marks so far."""
        return self._table.clock_ms

    @property
    def is_idle(self) -> bool:
        """Whether every source is idle."""
        return not any(self._awake)

    def restart(self) -> None:
        """Continue with only the state of the clock table, as after a restore."""
        table = ClockTable([TOPIC])
        table.apply(self._table.state())
        self._table = table

    def report(
        self, partition: int, watermark_ms: int | None = None, *, idle: bool = False
    ) -> None:
        """Report a source's watermark, or its idleness with an unchanged watermark."""
        before_ms = self._watermarks[partition]
        after_ms = before_ms if watermark_ms is None else watermark_ms
        mark = SourceMark(f"{TOPIC}/{partition}", 0, 0, before_ms, after_ms, idle)
        segment = Segment(0, 0, (mark,), self._partitions, 0, {})
        self._table.enter(segment)
        self._table.leave(segment)
        self._watermarks[partition], self._awake[partition] = after_ms, not idle


def watermark_probes(case: Case) -> Results:
    """Return the watermark, of one source or combined, after each item that the case probes."""
    time = case.watermark
    if time["type"] in ("batch_delay", "batch_delay_multi"):
        return _batches(case)
    delay_ms = time["wait_ms"] if time["type"] == "event_clock" else time["delay_ms"]
    source = SourceWatermark(delay_ms)
    results: Results = []
    for after, item in enumerate(case.input):
        if "ts" in item:
            source.add_event(item["ts"])
        results.append(_result("watermark", after, source.watermark_ms))
    return [result for result in results if _is_asked(case, result["after"])]


def _is_asked(case: Case, after: int) -> bool:
    """Return whether the case probes after this item, or has no probes and expects a result."""
    probes = [index for index, item in enumerate(case.input) if "probe" in item]
    return after in probes or (not probes and any(after == r.get("after") for r in case.expected))


def _batches(case: Case) -> Results:
    """Return the clock after each batch; watermarks are 0 before the first batch."""
    time = case.watermark
    sources = [
        SourceWatermark(delay_ms, 0) for delay_ms in time.get("delays_ms") or [time["delay_ms"]]
    ]
    clock = CombinedClock(len(sources))
    results: Results = []
    for after, item in enumerate(case.input):
        if "ts" in item:
            sources[item.get("partition", 0)].add_event(item["ts"])
        if "checkpoint" in item:
            clock.restart()
        if "end_batch" not in item:
            continue
        for partition, source in enumerate(sources):
            clock.report(partition, source.watermark_ms)
        results.append(_result("combined", after, clock.clock_ms))
    return results


def idle_probes(case: Case) -> Results:
    """Return whether a source is idle at each probe that the case asserts.

    The source is read to its end.  Ingest's rule decides from its silence, as if ingest looked at
    each item.
    """
    source = _idle_source(case.watermark["timeout_ms"])
    partition = Partition(TOPIC, 0)
    results: Results = []
    now_ms = since_ms = logged_ms = 0
    for after, item in enumerate(case.input):
        now_ms += item.get("advance_ms", 0)
        if "activity" in item:
            since_ms, logged_ms = now_ms, 0
        lasted_ms = now_ms - since_ms
        if to_mark({partition: Silence(logged_ms, lasted_ms)}, source, is_written=False):
            logged_ms = lasted_ms
        if "probe" in item:
            results.append({"kind": "status", "idle": logged_ms > 0, "after": after})
    asserted = {result.get("after") for result in case.expected}
    return [result for result in results if result["after"] in asserted]


def _idle_source(timeout_ms: int) -> Plan:
    pipeline = Pipeline("conformance", partitions=1)
    source = pipeline.source(
        TOPIC,
        schema={"key": str, "ts": int},
        event_time="ts",
        watermark=monotonic(),
        idle_after=f"{timeout_ms}ms",
    )
    source.key_by("key").window(tumbling("1s")).aggregate(n=count()).to("results")
    return pipeline.plan()


def changes(case: Case) -> Results:
    """Return each change of the clock, and each change between idle and active."""
    clock = CombinedClock(case.watermark["partitions"])
    results: Results = []
    for after, item in enumerate(case.input):
        clock_ms, was_idle = clock.clock_ms, clock.is_idle
        clock.restart() if "checkpoint" in item else _report(clock, item)
        if clock.clock_ms != clock_ms:
            results.append(_result("combined", after, clock.clock_ms))
        if clock.is_idle != was_idle:
            status = "idle" if clock.is_idle else "active"
            results.append({"kind": "combined", "status": status, "after": after})
    return results


def _report(clock: CombinedClock, item: Fields) -> None:
    if "watermark" in item:
        clock.report(item["partition"], stated_ms(item))
    elif "status" in item:
        clock.report(item["partition"], idle=item["status"] == "idle")
    else:
        raise ConformanceError(f"input {item!r} is unknown")


def _result(kind: str, after: int, watermark_ms: int) -> dict[str, Any]:
    names = {NEVER_MS: "-inf", FAR_MS: "+inf"}
    return {"kind": kind, "watermark": names.get(watermark_ms, watermark_ms), "after": after}
