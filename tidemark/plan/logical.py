"""The logical graph of a pipeline: sources, operators and outputs, as the user declared them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.joins.gathering_join import Gathering
from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.joins.table_join import Wait
from tidemark.core.operators.ordered.operator import RowRule
from tidemark.core.operators.patterns.pattern import Pattern
from tidemark.core.operators.patterns.step_values import StepValue
from tidemark.core.rows.expression import Columns
from tidemark.core.rows.schema import Schema
from tidemark.core.rows.stateless import RowOperator
from tidemark.core.time.assigners import EventTime
from tidemark.core.time.watermark import Watermark
from tidemark.core.windows.arrival import ArrivalWindow
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.trigger import Trigger
from tidemark.core.windows.window import AlignedWindows, Hopping, Same, Session, Sliding
from tidemark.plan.static_table import StaticTable
from tidemark.serde.formats.source_format import JSON, SourceFormat

Format = Literal["json", "avro"]
SessionLateness = Literal["strict", "after_merging"]
Accumulation = Literal["accumulating", "discarding"]
After = Literal["final", "every"]
Relation = Literal["time", "keep"]
SIDES = ("left", "right")
RULE_SIDES = ("rows", "rules")
MAX_PAIRS = 1_000_000
"""The number of pairs that a row of a join may have, unless the user says another."""
MAX_PARTIAL = 1000
"""The number of partial matches that a key may have, unless the user says another."""
MAX_RULES = 1_000
"""The number of rules that a match may have, unless the user says another for their table."""
Window = Hopping | Calendar | Same | Sliding | Session


@dataclass(frozen=True)
class Source:
    """Raw topics, and how their records get event time and watermarks.

    ``topics``: names, or one pattern (core/time/raw_topics.py).  ``schema``: the columns, and where
    they are in a record.  ``waits``: time stands still while all partitions are silent.
    ``declared_at``: file and line of the user's call.  ``format``: of the records.  ``static``:
    what ingest loads the topic from, if it writes it.
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
    static: StaticTable | None = None


@dataclass(frozen=True, eq=False)
class Node:
    """A stream: a source, the results of a stage, or the output of an operator on its parents.

    ``operator``, ``source`` and ``stage`` are all None for a union.
    """

    columns: Columns
    parents: tuple["Node", ...] = ()
    operator: RowOperator | None = None
    source: Source | None = None
    stage: "AnyStage | None" = None

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

    def stages(self) -> "Iterator[tuple[Node, AnyStage]]":
        """Yield the stages whose results feed the stream itself, with their nodes."""
        return ((node, node.stage) for node in self.ancestors() if node.stage)

    @property
    def is_of_stages(self) -> bool:
        """Whether some rows are results of a stage, so that they are of no raw record."""
        return any(True for _ in self.stages())

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
                for each, _ in node.stage.inputs:
                    yield from each.sources()


class KeyedNode(NamedTuple):
    """A stream with its key columns."""

    node: Node
    key: tuple[str, ...]


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
    def inputs(self) -> tuple[KeyedNode, ...]:
        """The stream that the windows are on."""
        return (KeyedNode(self.windowed.node, self.windowed.key),)


@dataclass(frozen=True, eq=False)
class OrderedStage:
    """The rows of a keyed stream in order of event time, by a rule; the results are a stream."""

    node: Node
    key: tuple[str, ...]
    rule: RowRule

    @property
    def inputs(self) -> tuple[KeyedNode, ...]:
        """The stream whose rows are put in order."""
        return (KeyedNode(self.node, self.key),)


@dataclass(frozen=True, eq=False)
class JoinStage:
    """The pairs of rows of two keyed streams, or its left rows; the results are a stream.

    ``shown``: by side, the name in a result of each column of the side, without the key.
    The other fields are those of ``StreamJoin``.
    """

    inputs: tuple[KeyedNode, ...]
    shown: tuple[Mapping[str, str], ...]
    how: Kind
    lower_ms: int
    upper_ms: int
    allowed_lateness_ms: int
    on_close: bool
    condition: pl.Expr | None
    upper: pl.Expr | None
    max_pairs: int
    relation: Relation
    windows: AlignedWindows | Session | None = None
    gathering: Gathering | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns, which both sides have."""
        return self.inputs[0].key


@dataclass(frozen=True, eq=False)
class TableStage:
    """The rows of a keyed stream with versions of a table, the second input.

    ``shown``: as of ``JoinStage``.  ``how``: "inner" or "left"; of a broadcast table also "semi" or
    "anti".  The other fields are those of ``TableJoin``.
    """

    inputs: tuple[KeyedNode, ...]
    shown: tuple[Mapping[str, str], ...]
    how: Kind
    keep_ms: int
    allowed_lateness_ms: int
    wait: Wait
    on_close: bool
    deleted: pl.Expr | None

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns of the rows, which a keyed table has, too."""
        return self.inputs[0].key


@dataclass(frozen=True, eq=False)
class PatternStage:
    """The matches of a pattern in the rows of each key, or its timeouts; they are a stream.

    ``values``: what a result shows of its rows, by name.  ``timeouts``: whether the results
    are the partial matches that ran out of time.  The other fields are those of ``PatternMatch``.
    """

    node: Node
    key: tuple[str, ...]
    pattern: Pattern
    values: Mapping[str, StepValue]
    max_partial: int
    timeouts: bool = False

    @property
    def inputs(self) -> tuple[KeyedNode, ...]:
        """The stream that has the rows."""
        return (KeyedNode(self.node, self.key),)

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps."""
        return self.pattern.names

    @property
    def within_ms(self) -> int:
        """How long after a row its results may be."""
        return self.pattern.within_ms


@dataclass(frozen=True, eq=False)
class RulesStage:
    """The matches of rules in the rows of each key, or their timeouts; they are a stream.

    ``inputs``: the stream that has the rows, and the table.  ``text``: the column of the table with
    the rules.  ``steps``: the names that ``values`` are of.  The other fields are those of
    ``RuleMatch`` and of its ``Rules``.
    """

    inputs: tuple[KeyedNode, ...]
    text: str
    keep_ms: int
    wait: Wait
    deleted: pl.Expr | None
    max_rows: int
    max_within_ms: int
    max_partial: int
    steps: tuple[str, ...]
    values: Mapping[str, StepValue]
    timeouts: bool = False

    @property
    def node(self) -> Node:
        """The stream that has the rows."""
        return self.inputs[0].node

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns of the rows."""
        return self.inputs[0].key

    @property
    def table(self) -> KeyedNode:
        """The broadcast table, with its one key column: the name of a rule."""
        return self.inputs[1]

    @property
    def within_ms(self) -> int:
        """How long after a row its results may be."""
        return self.max_within_ms


@dataclass(frozen=True, eq=False)
class LateStage:
    """The rows that are late for windows, an operator in order or a pattern; they are a stream."""

    of: Stage | OrderedStage | PatternStage

    @property
    def inputs(self) -> tuple[KeyedNode, ...]:
        """The stream that has the late rows."""
        return self.of.inputs


AnyJoinStage = JoinStage | TableStage
AnyPatternStage = PatternStage | RulesStage
AnyStage = Stage | OrderedStage | AnyJoinStage | AnyPatternStage | LateStage
