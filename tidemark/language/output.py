"""Outputs as users name them: checks of ``to``, and the rows of a stream as an output."""

from typing import get_args

import polars as pl

from tidemark.core.operators.rows import row_fields, rows_port
from tidemark.core.rows.expression import Columns
from tidemark.core.rows.leaf_values import holds
from tidemark.errors import PipelineError
from tidemark.plan.dataflow import Dataflow, output_topics
from tidemark.plan.logical import Format, Node
from tidemark.plan.names import require_topic
from tidemark.plan.operators.replacing import require_rows_that_stay
from tidemark.plan.outputs import RowsOutput
from tidemark.serde.avro_results import record_schema


def require_output(dataflow: Dataflow, name: str, form: Format) -> None:
    """Raise PipelineError if an output cannot have this name, or there is no such format."""
    require_topic(name, "to(name)")
    for topic in output_topics(dataflow.name, name):
        require_topic(topic, f"to({name!r})")
    if form not in get_args(Format):
        raise PipelineError(f"to({name!r}): format {form!r} is not one of {get_args(Format)}")


def publish_rows(
    dataflow: Dataflow, node: Node, key: tuple[str, ...], name: str, form: Format
) -> None:
    """Add an output with the rows of a stream.

    Raises:
        PipelineError: the name is not legal or is taken, a column has the name of a field of every
            row or a type without a form in JSON, or Avro does not support a name or type.
    """
    require_rows(dataflow, node.columns, key, name, form, by_id=node.is_of_stages)
    require_rows_that_stay([node], f"to({name!r})")
    dataflow.add_output(RowsOutput(name, form, node, key))


def require_rows(
    dataflow: Dataflow,
    columns: Columns,
    key: tuple[str, ...],
    name: str,
    form: Format,
    *,
    by_id: bool,
) -> None:
    """Raise PipelineError if rows with these columns cannot be an output of this name.

    ``by_id``: whether a text says which row each is (docs/semantics.md, "Rows").
    """
    require_output(dataflow, name, form)
    for column, dtype in columns.items():
        require_no_field(column, f"to({name!r})", by_id=by_id)
        if holds(dtype, _is_foreign):
            raise PipelineError(
                f"to({name!r}): column {column!r} is {dtype}, which results cannot hold; cast it "
                "to a String or an integer"
            )
    if form == "avro":
        record_schema(f"{dataflow.name}.{name}", rows_port(key, columns, by_id=by_id))


def require_no_field(column: str, what: str, *, by_id: bool) -> None:
    """Raise PipelineError if a column has the name of a field of every row."""
    if column in row_fields(by_id=by_id):
        raise PipelineError(
            f"{what}: column {column!r} clashes with a field of every row; rename or drop it "
            "with select()"
        )


def _is_foreign(dtype: pl.DataType) -> bool:
    """Return whether JSON has no form for values of a type that all readers share."""
    return isinstance(dtype, pl.Time | pl.Duration | pl.Array)
