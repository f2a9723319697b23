"""The logical graph of a pipeline: sources, operators and outputs, as the user declared them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.ordered.operator import RowRule
from tidemark.core.rows.expression import Columns
from tidemark.core.rows.schema import Schema
from tidemark.core.rows.stateless import RowOperator
from tidemark.core.time.assigners import EventTime
from tidemark.core.time.raw_topics import covers
from tidemark.core.time.watermark import Watermark
from tidemark.core.windows.arrival import ArrivalWindow
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.trigger import Trigger
from tidemark.core.windows.window import Hopping, Same, Session, Sliding
from tidemark.errors import PipelineError
from tidemark.plan.names import generations_topic, retried_topic, source_text, stats_topic
from tidemark.serde.formats.source_format import JSON, SourceFormat

Format = Literal["json", "avro"]
SessionLateness = Literal["strict", "after_merging"]
Accumulation = Literal["accumulating", "discarding"]
After = Literal["final", "every"]
Paths = tuple[tuple[str, tuple[str, ...]], ...]
Window = Hopping | Calendar | Same | Sliding | Session


@dataclass(frozen=True)
class Source:
    """Raw topics, and how their records get event time and watermarks.

    ``topics``: names, or one pattern (core/time/raw_topics.py).  ``schema``: the columns, and where
    they are in a record.  ``waits``: time stands still while all partitions are silent.
    ``declared_at``: file and line of the user's call.  ``format``: of the records.
    """

    topics: tuple[str, ...]
    schema: Schema
    event_time: EventTime
    watermark: Watermark
    idle_after_ms: int
    max_future_ms: int | None = None
    min_time_ms: int | None = None
    waits: bool = False
    max_drift_ms: int | None = None
    declared_at: str = ""
    format: SourceFormat = JSON


@dataclass(frozen=True, eq=False)
class Node:
    """A stream: a source, the results of a stage, or the output of an operator on its parents.

    ``operator``, ``source`` and ``stage`` are all None for a union.
    """

    columns: Columns
    parents: tuple["Node", ...] = ()
    operator: RowOperator | None = None
    source: Source | None = None
    stage: "Stage | OrderedStage | None" = None

    def ancestors(self) -> Iterator["Node"]:
        """Yield the ancestors of this node and then the node, each once, parents first."""
        seen: set[Node] = set()
        pending: list[tuple[Node, bool]] = [(self, False)]
        while pending:
            node, expanded = pending.pop()
            if expanded:
                yield node
            elif node not in seen:
                seen.add(node)
                pending.append((node, True))
                pending.extend((parent, False) for parent in reversed(node.parents))

    def topics(self) -> frozenset[str]:
        """Return the raw topics that feed the stream itself, as their sources name them."""
        found = (node.source for node in self.ancestors() if node.source)
        return frozenset(topic for source in found for topic in source.topics)

    def stages(self) -> "Iterator[tuple[Node, Stage | OrderedStage]]":
        """Yield the stages whose results feed the stream itself, with their nodes."""
        return ((node, node.stage) for node in self.ancestors() if node.stage)

    def _replacing_stages(self) -> "Iterator[Stage]":
        """Yield the stages that hand on every pane, whose results feed the stream itself."""
        for _, stage in self.stages():
            if isinstance(stage, Stage) and stage.after == "every":
                yield stage

    @property
    def replaces(self) -> bool:
        """Whether rows replace earlier ones: results of a stage after every pane."""
        return any(self._replacing_stages())

    @property
    def behind_ms(self) -> int:
        """How far rows may lie behind the clock of their stage."""
        lateness_ms = (each.windowed.allowed_lateness_ms for each in self._replacing_stages())
        return max(lateness_ms, default=0)

    def sources(self) -> Iterator[Source]:
        """Yield the sources that feed the stream or a stage before it; a source may come twice."""
        for node in self.ancestors():
            if node.source:
                yield node.source
            elif node.stage:
                yield from node.stage.node.sources()


@dataclass(frozen=True, eq=False)
class WindowDefinition:
    """A keyed stream in windows, with the options of ``window``."""

    node: Node
    key: tuple[str, ...]
    window: Window | ArrivalWindow
    allowed_lateness_ms: int
    trigger: Trigger
    lateness: SessionLateness = "strict"
    accumulation: Accumulation = "accumulating"
    by_processing_time: bool = False
    empty: bool = False


@dataclass(frozen=True, eq=False)
class Stage:
    """Aggregates of windows whose results are a stream.

    ``after``: one row a window, once it is final, or a row for every pane, which replaces the one
    before.
    """

    windowed: WindowDefinition
    aggregation: Aggregation
    after: After = "final"

    @property
    def node(self) -> Node:
        """The stream that the windows are on."""
        return self.windowed.node

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns."""
        return self.windowed.key


@dataclass(frozen=True, eq=False)
class OrderedStage:
    """The rows of a keyed stream in order of event time, by a rule; the results are a stream."""

    node: Node
    key: tuple[str, ...]
    rule: RowRule


@dataclass(frozen=True, eq=False)
class Output:
    """A named output of the pipeline: the aggregates of windows, published on its topics.

    ``results``: of a stage, the stream of its results; a stage has no topic for them.
    ``partials_of``: the name of the output whose partials this stage computes, or "".  ``merges``:
    whether the rows are partials (two_phases.py).  ``after``: of a stage.
    """

    name: str
    format: Format
    windowed: WindowDefinition
    aggregation: Aggregation
    results: Node | None = None
    partials_of: str = ""
    merges: bool = False
    after: After = "final"

    @property
    def node(self) -> Node:
        """The stream that the windows are on."""
        return self.windowed.node

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns of the stream; for partials, rows stay in their partitions."""
        return () if self.partials_of else self.windowed.key


@dataclass(frozen=True, eq=False)
class RowsOutput:
    """A named output of the pipeline: the rows of a stream, as they are.

    ``key``: the key columns; without any, rows stay in the partitions of their raw topics.
    """

    name: str
    format: Format
    node: Node
    key: tuple[str, ...]

    @property
    def results(self) -> None:
        """None: the rows are a stream already."""
        return None


@dataclass(frozen=True, eq=False)
class OrderedOutput:
    """A named output of the pipeline: rows in order of event time, by a rule.

    ``results``: as of ``Output``.
    """

    name: str
    format: Format
    stage: OrderedStage
    results: Node | None = None

    @property
    def node(self) -> Node:
        """The stream whose rows are put in order."""
        return self.stage.node

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns."""
        return self.stage.key


AnyOutput = Output | RowsOutput | OrderedOutput


@dataclass
class Dataflow:
    """The sources and outputs of a pipeline, in the order in which they were declared."""

    name: str
    partitions: int
    sources: list[Node] = field(default_factory=list)
    outputs: list[AnyOutput] = field(default_factory=list)
    keyed_nodes: dict[tuple[Node, Paths], Node] = field(default_factory=dict)
    """Nodes with columns of keys added, by node and paths: the same key gives the same stream."""

    @property
    def own_topics(self) -> tuple[str, ...]:
        """The topics of the whole pipeline, of no source and no output."""
        own = generations_topic(self.name), retried_topic(self.name)
        return self.dead_letters, self.stats, *own

    @property
    def dead_letters(self) -> str:
        """The topic of dead letters."""
        return f"{self.name}.dead-letters"

    @property
    def stats(self) -> str:
        """The topic of the statistics of services."""
        return stats_topic(self.name)

    def add_source(self, node: Node) -> None:
        """Add a source; raise PipelineError if the pipeline already reads one of its topics."""
        assert node.source is not None
        topics = node.source.topics
        what = f"source({source_text(topics)})"
        taken = self.topics()
        if any(topic in taken for topic in topics):
            raise PipelineError(
                f"{what}: the pipeline already has this topic; use the existing stream"
            )
        for other in (each.source.topics for each in self.sources if each.source):
            both = [
                *(topic for topic in topics if covers(other, topic)),
                *(topic for topic in other if covers(topics, topic)),
            ]
            if both:
                raise PipelineError(
                    f"{what}: source({source_text(other)}) reads {both[0]} too, and a topic may "
                    "belong to one source only; use the existing stream, or change a pattern"
                )
        self.sources.append(node)

    def add_output(self, output: AnyOutput) -> None:
        """Add an output; raise PipelineError if one of its topics is taken."""
        taken = self.topics()
        for topic in output_topics(self.name, output.name):
            if topic in taken:
                raise PipelineError(
                    f"to({output.name!r}): the pipeline already has topic {topic!r}"
                )
        self.outputs.append(output)

    def topics(self) -> set[str]:
        """Return all topics so far: raw topics, topics of outputs and of the whole pipeline."""
        topics = {topic for node in self.sources for topic in node.topics()}
        topics.update(self.own_topics)
        for output in self.outputs:
            topics.update(output_topics(self.name, output.name))
        return topics


def output_topics(pipeline: str, name: str) -> tuple[str, str, str]:
    """Return the topics of an output: results, late rows, changelog."""
    results = f"{pipeline}.{name}"
    return results, f"{results}.late", f"{results}.changelog"
