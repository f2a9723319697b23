"""The physical plan: what a pipeline becomes as topics, services, tasks.  Frozen values only."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from tidemark.core.operator import Operator

@dataclass(frozen=True)
class SourcePlan:
    """One raw topic: how its records become rows with time."""

    topic: str
    schema: Mapping[str, pl.DataType]
    # event_time, watermark: values of core/watermark.py
    idle_after_ms: int
    max_future_ms: int | None


@dataclass(frozen=True)
class StreamPlan:
    """A keyed stream as it stands in a log: its key, columns, and the raw topics it comes from."""

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    topics: frozenset[str]


@dataclass(frozen=True)
class LogPlan:
    """One log topic: the streams that share a key."""

    topic: str
    partitions: int
    streams: tuple[StreamPlan, ...]


@dataclass(frozen=True)
class OperatorPlan:
    """One operator, the service that runs it, and its topics."""

    service: str  # "windowing" | "sessions"
    log: str
    operator: Operator
    format: str  # "json" | "avro"
    results: str
    late: str
    changelog: str


@dataclass(frozen=True)
class Plan:
    """Everything services, Spark and the in-process runner need to know of a pipeline."""

    pipeline: str
    sources: tuple[SourcePlan, ...]
    logs: tuple[LogPlan, ...]
    operators: tuple[OperatorPlan, ...]
    dead_letters: str
