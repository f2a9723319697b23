"""The physical plan: what a pipeline becomes as topics, services, tasks.  Frozen values only."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from tidemark.core.operator import Operator
from tidemark.core.stateless import StatelessGraph
from tidemark.core.watermark import Bounded, EventTime

SERVICES = ("ingest", "windowing", "sessions")
"""Every service a plan may need, in the order in which records pass them."""


@dataclass(frozen=True)
class SourcePlan:
    """One raw topic: how its records become rows with time, and the rows of keyed streams."""

    topic: str
    schema: Mapping[str, pl.DataType]
    event_time: EventTime
    watermark: Bounded
    idle_after_ms: int
    max_future_ms: int | None
    graph: StatelessGraph


@dataclass(frozen=True)
class StreamPlan:
    """A keyed stream as it stands in a log: its key, columns, and the raw topics it comes from."""

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    topics: frozenset[str]


@dataclass(frozen=True)
class LogPlan:
    """One log topic: the streams that share a key domain, that is its names and types."""

    topic: str
    partitions: int
    streams: tuple[StreamPlan, ...]

    @property
    def key(self) -> dict[str, pl.DataType]:
        """The key columns and their types."""
        stream = self.streams[0]
        return {name: stream.columns[name] for name in stream.key}

    @property
    def topics(self) -> frozenset[str]:
        """The raw topics that feed the log."""
        return frozenset().union(*(stream.topics for stream in self.streams))


@dataclass(frozen=True)
class OperatorPlan:
    """One operator, the service that runs it, and its topics.

    ``horizon_ms``: how long after a row its last pane may still be due, in event time.
    ``description``: the operator in words.
    """

    service: str  # "windowing" | "sessions"
    log: str
    operator: Operator
    format: str  # "json" | "avro"
    results: str
    late: str
    changelog: str
    values: Mapping[str, pl.DataType]
    horizon_ms: int
    description: str


@dataclass(frozen=True)
class Plan:
    """Everything services, Spark and the in-process runner need to know of a pipeline."""

    pipeline: str
    sources: tuple[SourcePlan, ...]
    logs: tuple[LogPlan, ...]
    operators: tuple[OperatorPlan, ...]
    dead_letters: str

    def services(self) -> tuple[str, ...]:
        """Return the services the pipeline needs, in the order in which records pass them."""
        used = {operator.service for operator in self.operators}
        return tuple(name for name in SERVICES if name == "ingest" or name in used)

    def of_service(self, service: str) -> tuple[OperatorPlan, ...]:
        """Return the operators that a service runs."""
        return tuple(operator for operator in self.operators if operator.service == service)

    @property
    def horizon_ms(self) -> int:
        """How long a silent source must be reported as silent, so that every window closes."""
        delay_ms = max(source.watermark.delay_ms for source in self.sources)
        return delay_ms + max(operator.horizon_ms for operator in self.operators)

    def description(self) -> str:
        """Return the plan as text, the same in every process: what ``fingerprint`` is taken of."""
        lines = [f"pipeline {self.pipeline}, dead letters {self.dead_letters}"]
        for source in self.sources:
            lines.append(
                f"source {source.topic} {_types(source.schema)} {source.event_time} "
                f"{source.watermark} idle {source.idle_after_ms} future {source.max_future_ms}"
            )
            lines += [
                f"  {index} {step.text} <- {step.inputs} {_types(step.columns)}"
                for index, step in enumerate(source.graph.steps)
            ]
            lines += [f"  {name}: {keyed}" for name, keyed in source.graph.streams.items()]
        for log in self.logs:
            lines.append(f"log {log.topic} {log.partitions} {_types(log.key)}")
        for operator in self.operators:
            lines.append(
                f"{operator.service} {operator.log} -> {operator.results} {operator.format} "
                f"{operator.operator.streams} {operator.description} {_types(operator.values)}"
            )
        return "\n".join(lines)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with the meaning of the plan."""
        return hashlib.sha256(self.description().encode()).hexdigest()[:16]


def _types(columns: Mapping[str, Any]) -> str:
    return "(" + ", ".join(f"{name}: {dtype}" for name, dtype in columns.items()) + ")"
