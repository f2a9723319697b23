"""Streams of matches and timeouts, published or handed on as rows."""

from dataclasses import dataclass, replace
from functools import cached_property

from tidemark.core.operators.operator import Body
from tidemark.core.operators.patterns.results import MATCHED
from tidemark.core.operators.ports import late_port, shown_key
from tidemark.core.operators.rows import EVENT_TIME_MS, ID
from tidemark.errors import PipelineError
from tidemark.language.output import require_rows
from tidemark.language.stream import Stream
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.logical import AnyPatternStage, Format, Node, PatternStage, RulesStage
from tidemark.plan.operators.late import late_node
from tidemark.plan.operators.patterns import pattern_body
from tidemark.plan.operators.rules import rules_body
from tidemark.plan.outputs import PatternOutput
from tidemark.serde.avro_results import record_schema


@dataclass(frozen=True, eq=False)
class MatchedStream(Stream):
    """What a pattern finds: the key, values of the rows of a match, and ``_rows``."""

    stage: AnyPatternStage

    def __repr__(self) -> str:
        kind = "timeouts of " if self.stage.timeouts else ""
        found = ", ".join(self.stage.steps) if isinstance(self.stage, PatternStage) else "rules"
        return f"MatchedStream({kind}{found}: {', '.join(self.node.columns)})"

    @cached_property
    def timeouts(self) -> "MatchedStream":
        """The partial matches that ran out of time, with the same columns; of timeouts, itself.

        If a step has no rows, its values are null, and its aggregates are those of no rows.
        """
        return self if self.stage.timeouts else matched(self.dataflow, self.stage, timeouts=True)

    @cached_property
    def late(self) -> Stream:
        """The stream of the late rows, as ``late`` of aggregated streams.

        Raises:
            PipelineError: a column has the name of a column that is added, or the patterns are
                rules.
        """
        if not isinstance(self.stage, PatternStage):
            raise PipelineError(
                "late: matches of rules have no such stream; publish them with to(), which "
                "publishes late rows on a topic"
            )
        return Stream(self.dataflow, late_node(replace(self.stage, values={}, timeouts=False)))

    def to(self, name: str, format: Format = "json") -> None:  # noqa: A002 - the word users know
        """Publish results on topic ``<pipeline>.<name>``, late rows on ``<pipeline>.<name>.late``.

        Results are in the partitions of their keys.

        Raises:
            PipelineError: the name is not legal or is taken, a column has a type without a form in
                JSON, the format is unknown, or Avro does not support a name or type.
        """
        key = self.stage.key
        require_rows(self.dataflow, self.node.columns, shown_key(key), name, format, by_id=True)
        if format == "avro":
            results, *_ = _body(self.stage).outputs
            record_schema(f"{self.dataflow.name}.{name}", results)
            late = late_port(key, self.stage.node.columns)
            record_schema(f"{self.dataflow.name}.{name}.late", late)
        self.dataflow.add_output(PatternOutput(name, format, self.stage))


def matched(dataflow: Dataflow, stage: AnyPatternStage, *, timeouts: bool = False) -> MatchedStream:
    """Return the stream of the results of a stage, or of its timeouts."""
    stage = replace(stage, timeouts=timeouts)
    results, *_ = _body(stage).outputs
    hidden = (ID, EVENT_TIME_MS)
    columns = {name: dtype for name, dtype in results.columns.items() if name not in hidden}
    assert MATCHED in columns, "each result lists its rows"
    return MatchedStream(dataflow, Node(columns, stage=stage), stage)


def _body(stage: AnyPatternStage) -> Body:
    if isinstance(stage, RulesStage):
        return rules_body(stage, "")
    return pattern_body(stage)
