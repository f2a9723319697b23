"""The physical plan: the sources, logs, operators and topics of a pipeline, as frozen values.

docs/semantics.md specifies the results; docs/architecture.md shows the services that run a plan.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import CHANGES, Port
from tidemark.core.rows.copies import COPY
from tidemark.core.rows.schema import Schema
from tidemark.core.rows.stateless import StatelessGraph
from tidemark.core.time.assigners import EventTime
from tidemark.core.time.raw_topics import covers, is_pattern
from tidemark.core.time.segment import operator_source
from tidemark.core.time.watermark import Watermark, delay_ms
from tidemark.plan.names import generations_topic, retried_topic, stats_topic
from tidemark.plan.static_table import StaticTable
from tidemark.serde.formats.source_format import JSON, SourceFormat

SERVICES = ("ingest", "windowing", "sessions", "joins", "patterns")
"""All services that a plan may need, in the order in which records pass them."""

STREAMS = frozenset({"stream", "left stream", "right stream"})
"""The names in a state signature whose values are streams."""


@dataclass(frozen=True)
class SourcePlan:
    """One source: how records of its topics become rows with event time, and rows of streams.

    ``topics``: names of raw topics, or one pattern (core/time/raw_topics.py).  ``waits``: whether
    the clock stops while all sources are silent.  ``max_drift_ms``: how far, in event time, a
    partition may read ahead of the slowest one.  ``recorded``: whether an operator on the source
    uses processing time.  ``longest_window_ms``: the length of the longest window of event time
    that rows of the source may be in; along a path of stages, lengths add up.  ``loads``: whether a
    table reads the source, so that a new partition is read to its end before its watermark counts.
    ``declared_at``: file and line of the call that declares the source, no part of what the plan
    means.  ``format``: of the records.  ``static``: what ingest loads the topic from, if it writes
    it.  See ``Pipeline.source`` for the others.
    """

    topics: tuple[str, ...]
    schema: Schema
    event_time: EventTime
    watermark: Watermark
    idle_after_ms: int
    max_future_ms: int | None
    graph: StatelessGraph
    min_time_ms: int | None = None
    waits: bool = False
    max_drift_ms: int | None = None
    recorded: bool = False
    longest_window_ms: int = 0
    loads: bool = False
    declared_at: str = field(default="", compare=False)
    format: SourceFormat = JSON
    static: StaticTable | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The topics as one text."""
        return "+".join(self.topics)

    @property
    def named_topics(self) -> tuple[str, ...]:
        """The raw topics that the pipeline names; those of a pattern are not among them."""
        return tuple(topic for topic in self.topics if not is_pattern(topic))

    def reads(self, topic: str) -> bool:
        """Return whether a raw topic belongs to the source."""
        return covers(self.topics, topic)


@dataclass(frozen=True)
class DerivedPlan:
    """The results that an operator hands on to the operators after it: one source of their streams.

    Args:
        operator: the name of the operator.
        port: its port whose rows are handed on; ``holds_ms`` is never None.
        graph: the row operators between the results and the keyed streams that they feed.
        dead: the port of results that a row operator or a null key refuses.
    """

    operator: str
    port: Port
    graph: StatelessGraph
    dead: Port

    @property
    def source(self) -> str:
        """The name of the source, as ``operator_source`` gives it."""
        return operator_source(self.operator)

    @property
    def columns(self) -> Mapping[str, pl.DataType]:
        """The columns of a result that row operators see, with their types."""
        return self.graph.steps[0].columns

    @property
    def holds_ms(self) -> int:
        """The largest distance of a result's event time behind the clock of the operator."""
        assert self.port.holds_ms is not None
        return self.port.holds_ms


@dataclass(frozen=True)
class StreamPlan:
    """A keyed stream in a log: its key, its columns, and what it comes from.

    A broadcast stream has the column COPY, and the key of its table instead of that of the log.
    ``topics``: raw topics, as the sources name them, and operators, as ``operator_source`` does.
    """

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    topics: frozenset[str]

    @property
    def is_broadcast(self) -> bool:
        """Whether every partition of the log has all rows of the stream."""
        return COPY in self.columns


@dataclass(frozen=True)
class LogPlan:
    """One log topic: all streams with the same key columns and types, and broadcast streams."""

    topic: str
    partitions: int
    streams: tuple[StreamPlan, ...]

    @property
    def key(self) -> dict[str, pl.DataType]:
        """The key columns and their types."""
        stream = next(each for each in self.streams if not each.is_broadcast)
        return {name: stream.columns[name] for name in stream.key}

    @property
    def topics(self) -> frozenset[str]:
        """The raw topics and operators that feed the log, as the streams name them."""
        return frozenset().union(*(stream.topics for stream in self.streams))

    def reads(self, topic: str) -> bool:
        """Return whether a raw topic or an operator feeds the log."""
        return covers(self.topics, topic)


@dataclass(frozen=True)
class PortPlan:
    """A port of an operator, and the topic of its rows.

    ``topic``: "" for results that are only handed on.  ``format``: the format of the records,
    ``"json"`` or ``"avro"``.
    """

    port: Port
    topic: str
    format: str


@dataclass(frozen=True)
class OperatorPlan:
    """One operator, the service that runs it, and its topics.

    Args:
        service: ``"windowing"``, ``"sessions"``, ``"joins"`` or ``"patterns"``.
        log: topic of the log that the operator reads.
        operator: the operator itself.
        ports: its ports with their topics, the main port first.
        changelog: topic of its keyed state.
        dead_letters: topic for rows that it refuses, and for results that fit no message.
        description: its aggregates and windows as text.
        state_signature: by name, the properties that its state depends on.  The operator cannot
            restore state with another signature.
        reads: the columns of its streams that its results depend on.  None: it publishes rows as
            they are, so a column that a stream gains is in the rows from then on.
        one_task: why one task takes all rows of a stream with one key; "" if several may.
    """

    service: str
    log: str
    operator: Operator
    ports: tuple[PortPlan, ...]
    changelog: str
    dead_letters: str
    description: str
    state_signature: Mapping[str, str]
    reads: frozenset[str] | None = None
    one_task: str = ""

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.operator.name

    @property
    def results(self) -> PortPlan:
        """The main port."""
        return self.ports[0]

    @property
    def published(self) -> tuple[PortPlan, ...]:
        """The ports with a topic of their own: not dead letters, nor what is only handed on."""
        return tuple(each for each in self.ports if each.topic and not each.port.is_dead_letters)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of results and late rows."""
        return tuple(each.topic for each in self.published)

    def port(self, name: str) -> PortPlan:
        """Return a port by its name."""
        return next(each for each in self.ports if each.port.name == name)


@dataclass(frozen=True)
class Plan:
    """A compiled pipeline, as services, Spark and the in-process runner use it.

    ``operators`` and ``derived`` are in the order in which rows pass them.
    """

    pipeline: str
    sources: tuple[SourcePlan, ...]
    logs: tuple[LogPlan, ...]
    operators: tuple[OperatorPlan, ...]
    dead_letters: str
    derived: tuple[DerivedPlan, ...] = ()

    @property
    def named_topics(self) -> tuple[str, ...]:
        """The raw topics that the pipeline names."""
        return tuple(topic for source in self.sources for topic in source.named_topics)

    def source_of(self, topic: str) -> SourcePlan:
        """Return the source of a raw topic."""
        return next(source for source in self.sources if source.reads(topic))

    def log_of(self, operator: OperatorPlan) -> LogPlan:
        """Return the log that an operator reads."""
        return next(log for log in self.logs if log.topic == operator.log)

    def derived_of(self, operator: str) -> DerivedPlan | None:
        """Return what an operator hands on, if operators read its results."""
        return next((each for each in self.derived if each.operator == operator), None)

    def fed_by(self, derived: DerivedPlan) -> tuple[LogPlan, ...]:
        """Return the logs that hold what an operator hands on."""
        return tuple(log for log in self.logs if log.reads(derived.source))

    @property
    def stats(self) -> str:
        """The topic to which services publish their stats once a second."""
        return stats_topic(self.pipeline)

    @property
    def generations(self) -> str:
        """The compacted topic of the generations of operators."""
        return generations_topic(self.pipeline)

    @property
    def retried(self) -> str:
        """The compacted topic that says which dead letters were sent again."""
        return retried_topic(self.pipeline)

    def services(self) -> tuple[str, ...]:
        """Return the services the pipeline needs, in the order in which records pass them."""
        used = {operator.service for operator in self.operators}
        return tuple(name for name in SERVICES if name == "ingest" or name in used)

    def keyed_services(self) -> tuple[str, ...]:
        """Return the services that run operators."""
        return tuple(dict.fromkeys(operator.service for operator in self.operators))

    def group(self, service: str) -> str:
        """Return the consumer group of a service."""
        return f"{self.pipeline}.{service}"

    def of_service(self, service: str) -> tuple[OperatorPlan, ...]:
        """Return the operators that a service runs."""
        return tuple(operator for operator in self.operators if operator.service == service)

    @property
    def horizon_ms(self) -> int:
        """The silence, ms, up to which ingest must report a source, so that every window closes."""
        delays_ms = (delay_ms(source.watermark) for source in self.sources)
        return max(delays_ms) + max(map(self.path_horizon_ms, self.operators))

    def path_horizon_ms(self, plan: OperatorPlan) -> int:
        """Return the time, ms, after a raw row in which a result of the operator may be due.

        The horizons of upstream operators are added, because their results are the rows of the
        operator.
        """
        upstream = (
            self.path_horizon_ms(each)
            for each in self.operators
            if operator_source(each.name) in plan.operator.sources
        )
        return plan.operator.horizon_ms + max(upstream, default=0)

    def description(self) -> str:
        """Return the plan as text, the same in every process; ``fingerprint`` is its hash."""
        lines = [f"pipeline {self.pipeline}, dead letters {self.dead_letters}"]
        for source in self.sources:
            lines.append(
                f"source {source.name} {_types(source.schema.texts())} {source.event_time} "
                f"{source.watermark} idle {source.idle_after_ms} future {source.max_future_ms}"
                f"{_time_options(source)}{_format(source)}"
            )
            lines += _graph(source.graph)
        for derived in self.derived:
            changes = " changes" if derived.port.mode == CHANGES else ""
            lines.append(f"source {derived.source} holds {derived.holds_ms}{changes}")
            lines += _graph(derived.graph)
        for log in self.logs:
            lines.append(f"log {log.topic} {log.partitions} {_types(log.key)}")
        for operator in self.operators:
            results = operator.results
            streams = tuple(name for each in operator.operator.inputs for name in each.streams)
            values = {name: results.port.columns[name] for name in results.port.values}
            lines.append(
                f"{operator.service} {operator.log} -> {results.topic} {results.format} "
                f"{streams} {operator.description} {_types(values)}"
            )
        return "\n".join(lines)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with the meaning of the plan."""
        return hashlib.sha256(self.description().encode()).hexdigest()[:16]


def _graph(graph: StatelessGraph) -> list[str]:
    return [
        *(
            f"  {index} {step.text} <- {step.inputs} {_types(step.columns)}"
            for index, step in enumerate(graph.steps)
        ),
        *(f"  {name}: {keyed}" for name, keyed in graph.streams.items()),
    ]


def _time_options(source: SourcePlan) -> str:
    """Return the time options that change the content of the log; alignment does not."""
    parts = [f" min {source.min_time_ms}"] if source.min_time_ms is not None else []
    return "".join([*parts, " waits" * source.waits, " loads" * source.loads])


def _format(source: SourcePlan) -> str:
    """Return the format with its schema; JSON, the default, is not named."""
    return "" if source.format == JSON else f" format {source.format!r}"


def _types(columns: Mapping[str, Any]) -> str:
    return "(" + ", ".join(f"{name}: {dtype}" for name, dtype in columns.items()) + ")"
