"""Stacks of the pipeline of ticks, its records and what it publishes."""

from typing import Any

from tests.kafka.pipelines import ticks as pipeline
from tests.kafka.support.stack import Stack
from tidemark.core.time.segment import Segment
from tidemark.serde.segments import decode_segment

T0 = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def ticks(broker: str, name: str, raw_partitions: int = 1, **options: Any) -> Stack:
    fast = {"KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS": "1000"}
    return Stack(broker, name, raw_partitions, pipeline, options, **fast)


def tick(ts: int, v: int = 1, k: str = "a") -> bytes:
    return b'{"k":"%s","ts":%d,"v":%d}' % (k.encode(), ts, v)


def panes(stack: Stack) -> list[tuple[str, int, int, int]]:
    """Return key, start in s after T0, count and sum of what was published."""
    return [
        (pane["k"], (pane["start"] - T0) // 1_000, pane["count"], pane["sum"])
        for pane in stack.results("out")
    ]


def segments(stack: Stack) -> list[Segment]:
    (log,) = stack.plan.logs
    return [decode_segment(value or b"") for _, value in stack.committed(log.topic)]
