"""Work that takes longer than a transaction may be open."""

import json

import numpy as np
from confluent_kafka import Producer
from slow import PAUSE_MS, build
from stack import Stack

from tidemark.ingest import Ingest, Progress, RecordBatch
from tidemark.runtime.serde.segments import encode_segment
from tidemark.segment_builder import SegmentBuilder

T = 1_700_000_000_000
SEGMENTS = 80


def test_more_work_than_fits_into_a_transaction_is_done_in_portions(broker):
    """The log has 80 segments of 0.1 s each; a process would take 64 of them at once."""
    with Stack(broker, "slow", module="slow", TIDEMARK_TRANSACTION_TIMEOUT_MS="3000") as stack:
        producer = Producer({"bootstrap.servers": broker})
        for segment in _log():
            producer.produce("slow.by-k.log", segment, partition=0)
        assert producer.flush(10) == 0
        stack.start("windowing")
        stack.await_results("out", lambda panes: len(panes) == 1)
        (pane,) = stack.results("out")
        assert pane["n"] == SEGMENTS
        assert stack.stop() == {"windowing": 0}


def _log() -> list[bytes]:
    plan = build("slow").plan()
    (log,) = plan.logs
    ingest, builder, progress = Ingest(plan), SegmentBuilder(0), Progress()
    rows = [(T + n, PAUSE_MS) for n in range(SEGMENTS)] + [(T + 10_000, 0)]
    segments = []
    for offset, (at_ms, pause_ms) in enumerate(rows):
        taken = ingest.take(_record(offset, at_ms, pause_ms), progress)
        progress = taken.progress
        builder.add(taken)
        ((segment,),) = builder.build(log, T, {"slow-moves": 1})
        segments.append(encode_segment(segment))
        builder.clear()
    return segments


def _record(offset: int, at_ms: int, pause_ms: int) -> RecordBatch:
    value = json.dumps({"k": "a", "ts": at_ms, "pause_ms": pause_ms}).encode()
    return RecordBatch(
        topic="slow-moves", partition=0, offsets=np.array([offset]), timestamps=[T], keys=[None],
        headers=[None], values=[value], next_offset=offset + 1, received_at_ms=T,
    )  # fmt: skip
