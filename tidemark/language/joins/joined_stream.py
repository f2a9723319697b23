"""Joined streams: the rows of a join, published or handed on as rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tidemark.core.aggregates.aggregate import AggregateFunction
from tidemark.core.operators.ports import LATE
from tidemark.core.operators.rows import row_fields
from tidemark.core.rows.byte_text import has_bytes
from tidemark.core.windows.pane import REVISION
from tidemark.errors import PipelineError
from tidemark.language.joins.gathered import aggregated_partners, first_of
from tidemark.language.output import require_rows
from tidemark.language.stream import Stream
from tidemark.plan.logical import AnyJoinStage, Format, JoinStage, Node
from tidemark.plan.operators.joins import join_body
from tidemark.plan.outputs import JoinOutput
from tidemark.serde.avro_results import record_schema


@dataclass(frozen=True, eq=False)
class JoinedStream(Stream):
    """The rows of a join: those of the key, then of the left and of the right stream."""

    stage: AnyJoinStage

    def __repr__(self) -> str:
        return f"JoinedStream({self.stage.how}, {', '.join(self.node.columns)})"

    def first(self, by: str | pl.Expr | None = None) -> "JoinedStream":
        """Return one row for each left row: with the first of its partners, once it is final.

        The first is the earliest in event time, or the one with the least ``by``, where null comes
        last.  ``by`` is over the columns of the join.

        Raises:
            PipelineError: ``by`` is not a value that has an order, or the join is with a table, in
                windows, not "inner" or "left", or with ``on_close()``.
        """
        return self._gathered(first_of(self.node.columns, self.stage, by))

    def aggregate(self, **aggregates: AggregateFunction) -> "JoinedStream":
        """Return one row for each left row: its columns and aggregates of its partners, once final.

        Aggregates are over the columns of the join: ``aggregate(n=count(), paid=sum("paid"))``.
        The row of a left join without partners has aggregates of zero rows.

        Raises:
            PipelineError: a value is not an aggregate, does not fit the columns, or its name is
                taken; or the join is with a table, in windows, not "inner" or "left", or with
                ``on_close()``.
        """
        return self._gathered(aggregated_partners(self.node.columns, self.stage, aggregates))

    def _gathered(self, node: Node) -> "JoinedStream":
        assert isinstance(node.stage, JoinStage), "the stage of the join, changed"
        return JoinedStream(self.dataflow, node, node.stage)

    def to(self, name: str, format: Format = "json") -> None:  # noqa: A002 - the word users know
        """Publish rows on topic ``<pipeline>.<name>``.

        Late rows are on ``<pipeline>.<name>.late-left`` and ``<pipeline>.<name>.late-right``.

        Raises:
            PipelineError: the name is not legal or is taken, a column has a type without a form in
                JSON, the format is unknown, or Avro does not support a name or type.
        """
        require_rows(self.dataflow, self.node.columns, self.stage.key, name, format, by_id=True)
        for column, dtype in self.node.columns.items():
            if has_bytes(dtype):
                raise PipelineError(
                    f"to({name!r}): column {column!r} is {dtype}, and results cannot hold bytes; "
                    "make them text first, such as col('body').bin.encode('base64')"
                )
        if format == "avro":
            for port in join_body(self.stage, self.stage.shown, name).outputs:
                if not port.is_dead_letters:
                    end = f".{port.name}" if port.kind == LATE else ""
                    record_schema(f"{self.dataflow.name}.{name}{end}", port)
        self.dataflow.add_output(JoinOutput(name, format, self.stage))


def require_no_field(
    columns: Mapping[str, pl.DataType], own: Sequence[str] = (), *, on_close: bool
) -> None:
    """Raise PipelineError if a column of results has the name of a field of every row.

    ``own``: fields that only rows of this join have.
    """
    for name in (*row_fields(by_id=True), *own, *[REVISION] * on_close):
        if name in columns:
            raise PipelineError(
                f"join: column {name!r} clashes with a field of every row; rename or drop it with "
                "select() before key_by()"
            )
