"""Work that takes longer than a transaction may be open."""

import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest
from confluent_kafka import Producer

from tests.kafka.pipelines import slow
from tests.kafka.support.stack import Stack, wait_until
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.serde.segments import encode_segment

T = 1_700_000_000_000
SEGMENTS = 80

Rows = list[tuple[int, int]]
"""Event times, and how long each row takes."""


@pytest.mark.long
def test_more_work_than_fits_into_a_transaction_is_done_in_portions(broker):
    """The log has 80 segments of 0.1 s each; a process would take 64 of them at once."""
    rows = [[(T + n, slow.PAUSE_MS)] for n in range(SEGMENTS)]
    with Stack(broker, "slow", module=slow, TIDEMARK_TRANSACTION_TIMEOUT_MS="3000") as stack:
        _fill(stack, [*rows, [(T + 10_000, 0)]])
        stack.start("windowing")
        stack.await_results("out", lambda panes: len(panes) == 1)
        (pane,) = stack.results("out")
        assert pane["n"] == SEGMENTS
        assert stack.stop() == {"windowing": 0}


@pytest.mark.long
def test_a_transaction_that_was_open_for_too_long_is_named_and_restarts_heal_it(broker):
    """A pane is written, and 6 s of work follow before the next; the broker waits for 1 s."""
    # Twice as many segments are taken at once after a quick batch: 1, 2 and 4, or 1, 1, 2 and 4.
    # So a pane is written before the batch with the work, however long the first segment takes.
    rows = [[(T, 0)], [(T + 1, 0)], *([(T + n * 10_000, 0)] for n in range(1, 5))]
    rows += [[(T + 50_000 + n, slow.PAUSE_MS) for n in range(60)]]
    rows += [[(T + 60_000, 0)], [(T + 70_000, 0)]]
    with Stack(broker, "expired", module=slow, TIDEMARK_TRANSACTION_TIMEOUT_MS="1000") as stack:
        _fill(stack, rows)
        rare = {f"TIDEMARK_COMMIT_INTERVAL_{name}MS": "4000" for name in ("", "MAX_")}
        stack.start("windowing", **rare)
        _end_expired(stack)
        assert stack.results("out") == []

        def all_there() -> bool:  # it may meet the same, and gets a segment further each time
            if stack.process("windowing").poll() is not None:
                _end_expired(stack)
            return len(stack.results("out")) == 7

        wait_until(all_there, "all panes")
        assert [pane["n"] for pane in stack.results("out")] == [2, 1, 1, 1, 1, 60, 1]
        assert stack.stop() == {"windowing": 0}


def _end_expired(stack: Stack) -> None:
    """Wait for the end that the broker made, and start the service again."""
    assert stack.process("windowing").wait() == 1
    (line,) = [line for line in stack.log("windowing").splitlines() if " ERROR   win" in line]
    assert "a transaction was open for " in line
    assert "longer than TIDEMARK_TRANSACTION_TIMEOUT_MS=1000: the broker aborted it" in line
    stack.start("windowing")


def _fill(stack: Stack, segments: Sequence[Rows]) -> None:
    producer = Producer({"bootstrap.servers": stack.config.bootstrap_servers})
    for segment in _encoded(stack.name, segments):
        producer.produce(f"{stack.name}.by-k.log", segment, partition=0)
    assert producer.flush(10) == 0


def _encoded(name: str, segments: Iterable[Rows]) -> Iterator[bytes]:
    plan = slow.build(name).plan()
    (log,) = plan.logs
    ingest, builder, progress = Ingest(plan), SegmentBuilder(0), Progress()
    for rows in segments:
        taken = ingest.take(_records(f"{name}-moves", progress.next_offset, rows), progress)
        progress = taken.progress
        builder.add(taken)
        ((segment,),) = builder.build(log, T, {f"{name}-moves": 1})
        yield encode_segment(segment)
        builder.clear()


def _records(topic: str, offset: int, rows: Rows) -> RecordBatch:
    values = [json.dumps({"k": "a", "ts": at, "pause_ms": pause}).encode() for at, pause in rows]
    count = len(values)
    return RecordBatch(
        topic=topic, partition=0, offsets=np.arange(offset, offset + count), timestamps=[T] * count,
        keys=[None] * count, headers=[None] * count, values=values, next_offset=offset + count,
        received_at_ms=T,
    )  # fmt: skip
