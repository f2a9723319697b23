"""Logs of a run in this process, with stages run again by the tasks that Spark has for it.

Sorted lists are in place of Spark's shuffles.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import cycle

import pyarrow as pa

from tidemark.core.time.segment import is_operator_source
from tidemark.partition import Partition
from tidemark.plan.physical import DerivedPlan, Plan
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.serde.segments import decode_segment, encode_segment
from tidemark.spark.log_replay import LogReplay
from tidemark.spark.read.segment_rows import segment_batch, segment_rows
from tidemark.spark.read.slices import slice_segment
from tidemark.spark.replay.log_writer import written_as
from tidemark.spark.replay.stages import remade_stage
from tidemark.spark.stage_segments import StageAssembler
from tidemark.spark.stage_tasks import (
    MarkReader,
    SegmentRouter,
    StageRunner,
    placed_batch,
    placed_rows,
)
from tidemark.testing import InProcess

Logs = dict[Partition, list[tuple[int, bytes]]]


def logs_of(run: InProcess) -> Logs:
    """Return the logs with gaps between the offsets, as transactions leave them."""
    return {
        Partition(*at): [
            (3 * n + 1, encode_segment(replace(each, ingested_at_ms=n)))
            for n, each in enumerate(segments)
        ]
        for at, segments in run._log.items()
    }


def replayed(plan: Plan, logs: Logs, slices: int = 1) -> dict[str, Counter[str]]:
    """Return the messages of each topic that a replay of logs gives, as a multiset."""
    found: dict[str, Counter[str]] = {}
    for log, values in logs.items():
        for number in range(slices):
            replay = LogReplay(plan, log, number)
            if not replay.plans or not values:
                continue
            for output in replay.take([*_sliced(plan, log, values, number, slices)]):
                for each in output.plan.published:
                    rows = output.frames.get(each.port.name)
                    if rows is not None and rows.height:
                        _, lines = encoder_of(each).encode(rows)
                        found.setdefault(each.topic, Counter()).update(map(_text, lines))
    return found


def _sliced(
    plan: Plan, log: Partition, values: list[tuple[int, bytes]], number: int, slices: int
) -> Iterator[tuple[int, bytes]]:
    (of,) = (each for each in plan.logs if each.topic == log.topic)
    for offset, value in values:
        parts = slice_segment(decode_segment(value), [*of.key], of.partitions, slices)
        yield offset, encode_segment(parts[number])


def _text(line: bytes) -> str:
    return json.dumps(json.loads(line), sort_keys=True)


def live(run: InProcess) -> dict[str, Counter[str]]:
    """Return the messages of each topic that a run has published, as a multiset."""
    return {
        topic: Counter(json.dumps(value, sort_keys=True) for value in values)
        for topic, values in run._topics.items()
        if values and topic != run.plan.dead_letters
    }


def with_stages(
    plan: Plan, stages: Iterable[DerivedPlan], logs: Logs, *, whole: bool = False
) -> Logs:
    """Return logs with the rows of stages made again, as the tasks of Spark make them."""
    for derived in stages:
        stage = remade_stage(plan, derived, [*logs], whole=whole)
        fed = [segment_batch(at, *each) for at in stage.fed for each in logs[at]]
        own_logs = [Partition(stage.operator.log, n) for n in range(stage.partitions)]
        own = [segment_batch(at, *each) for at in own_logs for each in logs[at]]
        marks = MarkReader(stage)(iter(fed))
        input_ = [*marks, *SegmentRouter(own_logs)(iter(own))]
        rows = [*StageRunner(stage)(_gathered(input_))]
        recorded = SegmentRouter(stage.fed)(iter(fed))
        logs = {**logs, **{at: [] for at in stage.fed}}
        for batch in StageAssembler(stage)(_gathered([*recorded, *rows])):
            for row in segment_rows(batch):
                logs[row.log].append((row.offset, row.value))
    return logs


def _gathered(batches: list[pa.RecordBatch]):
    rows = sorted(placed_rows(iter(batches)), key=lambda row: row[:-1])
    return iter([placed_batch(rows)] if rows else [])


def raw_only(logs: Logs) -> Logs:
    """Return logs without the rows and marks of stages."""
    return stopped_after(logs, [0])


def stopped_after(logs: Logs, shares: Iterable[float]) -> Logs:
    """Return logs whose stages stopped after a share of the segments, while ingest went on.

    ``shares``: one for each log; they begin again where there are more logs.
    """
    found: Logs = {}
    for (at, values), share in zip(logs.items(), cycle(shares), strict=False):
        kept = int(len(values) * share)
        found[at] = [*values[:kept], *(each for each in values[kept:] if not _is_of_stage(each[1]))]
    return found


def written(logs: Logs) -> Logs:
    """Return logs as a hand-over writes them, in many small segments."""
    return {
        at: [
            (offset, encode_segment(segment))
            for offset, segment in enumerate(
                part for _, value in values for part in written_as(decode_segment(value), 300)
            )
        ]
        for at, values in logs.items()
    }


def end_of(plan: Plan, log: Partition, values: list[tuple[int, bytes]]) -> LogReplay:
    """Return a replay of a log at its end."""
    replay = LogReplay(plan, log)
    for _ in replay.take(values):
        pass
    return replay


def _is_of_stage(value: bytes) -> bool:
    return any(is_operator_source(mark.source) for mark in decode_segment(value, ()).sources)
