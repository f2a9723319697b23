"""Streams of rows in order of event time: ``distinct_by`` and ``scan``."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tidemark.core.operators.ordered.distinct import Distinct
from tidemark.core.operators.ordered.scan import Scan
from tidemark.core.operators.ordered.values import RowValue
from tidemark.core.operators.ports import late_port, shown_columns, shown_key
from tidemark.core.rows.expression import as_written, require_column
from tidemark.core.time.duration import Duration, positive_ms
from tidemark.errors import PipelineError
from tidemark.language.output import require_no_field, require_rows
from tidemark.language.stream import Stream
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.logical import Format, Node, OrderedStage
from tidemark.plan.names import require_key, require_new_columns
from tidemark.plan.operators.late import late_node, require_not_late
from tidemark.plan.operators.replacing import require_rows_that_stay
from tidemark.plan.outputs import OrderedOutput
from tidemark.serde.avro_results import record_schema


@dataclass(frozen=True, eq=False)
class OrderedStream(Stream):
    """Rows in order of event time by key, with their own event times."""

    stage: OrderedStage

    def __repr__(self) -> str:
        return f"OrderedStream({self.stage.rule})"

    @cached_property
    def late(self) -> Stream:
        """The stream of the late rows, as ``late`` of aggregated streams.

        Raises:
            PipelineError: a column has the name of one that is added.
        """
        return Stream(self.dataflow, late_node(self.stage))

    def to(self, name: str, format: Format = "json") -> None:  # noqa: A002 - the word users know
        """Publish rows on topic ``<pipeline>.<name>``, late rows on ``<pipeline>.<name>.late``.

        Rows are in the partitions of their keys, and those of a key in order of event time.

        Raises:
            PipelineError: the name is not legal or is taken, a column has a type without a form in
                JSON, the format is unknown, or Avro does not support a name or type.
        """
        key = self.stage.key
        by_id = self.stage.node.is_of_stages
        require_rows(self.dataflow, self.node.columns, shown_key(key), name, format, by_id=by_id)
        if format == "avro":
            late = late_port(key, self.stage.node.columns)
            record_schema(f"{self.dataflow.name}.{name}.late", late)
        self.dataflow.add_output(OrderedOutput(name, format, self.stage))


def distinct(
    dataflow: Dataflow, node: Node, key: tuple[str, ...], columns: tuple[str, ...], within: Duration
) -> OrderedStream:
    """Return the first rows of each key and value of ``columns``.

    Raises:
        PipelineError: a column is missing or cannot be a key, or the time is not positive.
    """
    what = f"distinct_by({', '.join(map(as_written, columns))})"
    for name in columns:
        if not isinstance(name, str):
            raise PipelineError(f"{what}: {as_written(name)} is not a column name")
        require_column(name, node.columns, what)
    require_key(columns, node.columns, what)
    within_ms = positive_ms(within, "distinct_by(within)")
    by = tuple(dict.fromkeys([*key, *columns]))
    return _ordered(dataflow, OrderedStage(node, key, Distinct(by, within_ms)), "distinct_by")


def scanned(
    dataflow: Dataflow,
    node: Node,
    key: tuple[str, ...],
    values: Mapping[str, RowValue],
    max_silence: Duration | None,
) -> OrderedStream:
    """Return rows with the values of rows before them.

    Raises:
        PipelineError: no value is passed, or one has a wrong type or a name that is taken.
    """
    if not values:
        raise PipelineError("scan(): no values; pass at least one, as name=prev('column')")
    for name, value in values.items():
        if not isinstance(value, RowValue):
            raise PipelineError(
                f"scan({name}): {as_written(value)} is not prev('column'), diff('column') or "
                "cum_sum('column')"
            )
        if name in node.columns:
            raise PipelineError(f"scan({name}): the stream has this column; choose another name")
    require_new_columns(list(values), "scan")
    silence_ms = None
    if max_silence is not None:
        silence_ms = positive_ms(max_silence, "scan(max_silence)")
    rule = Scan(dict(values), key, node.columns, silence_ms)
    return _ordered(dataflow, OrderedStage(node, key, rule), "scan")


def _ordered(dataflow: Dataflow, stage: OrderedStage, what: str) -> OrderedStream:
    require_rows_that_stay([stage.node], what)
    require_not_late(stage.node, what)
    columns = {**stage.node.columns, **stage.rule.added}
    shown = shown_columns(columns)
    for name in shown:
        require_no_field(name, what, by_id=stage.node.is_of_stages)
    return OrderedStream(dataflow, Node(shown, stage=stage), stage)
