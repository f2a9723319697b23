"""The outputs of a pipeline: what ``to`` names, and stages as operators of their own."""

from dataclasses import dataclass

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.plan.logical import (
    After,
    AnyJoinStage,
    AnyPatternStage,
    Format,
    KeyedNode,
    LateStage,
    Node,
    OrderedStage,
    WindowDefinition,
)


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
    def inputs(self) -> tuple[KeyedNode, ...]:
        """The stream that the windows are on; for partials, rows stay in their partitions."""
        return (KeyedNode(self.windowed.node, () if self.partials_of else self.windowed.key),)


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
    def inputs(self) -> tuple[KeyedNode, ...]:
        """The stream itself."""
        return (KeyedNode(self.node, self.key),)

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
    def inputs(self) -> tuple[KeyedNode, ...]:
        """The stream whose rows are put in order."""
        return self.stage.inputs


@dataclass(frozen=True, eq=False)
class LateOutput:
    """The late rows of a stream, which are only handed on.

    ``results``: the stream of late rows.  ``inputs``: the stream that has them, as the operator
    reads it.
    """

    name: str
    format: Format
    stage: LateStage
    results: Node
    inputs: tuple[KeyedNode, ...]


@dataclass(frozen=True, eq=False)
class JoinOutput:
    """A named output of the pipeline: the rows of a join; ``results``: as of ``Output``."""

    name: str
    format: Format
    stage: AnyJoinStage
    results: Node | None = None

    @property
    def inputs(self) -> tuple[KeyedNode, ...]:
        """The streams of both sides."""
        return self.stage.inputs


@dataclass(frozen=True, eq=False)
class PatternOutput:
    """A named output of the pipeline: what a pattern finds; ``results``: as of ``Output``."""

    name: str
    format: Format
    stage: AnyPatternStage
    results: Node | None = None

    @property
    def inputs(self) -> tuple[KeyedNode, ...]:
        """The stream that has the rows; of rules, also their table."""
        return self.stage.inputs


AnyOutput = Output | RowsOutput | OrderedOutput | JoinOutput | PatternOutput | LateOutput


def advances(output: AnyOutput) -> bool:
    """Return whether the clock of an output advances while all its sources are silent."""
    return not any(source.waits for node, _ in output.inputs for source in node.sources())
