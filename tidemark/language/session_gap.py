"""Dynamic-gap sessions, whose gap is a value of the row: the step that their stream needs."""

import polars as pl

from tidemark.core.rows.expression import output_types, require_column
from tidemark.core.rows.probe import require_row_wise
from tidemark.core.rows.session_gap import GAP_COLUMN, SessionGap
from tidemark.core.windows.window import Session
from tidemark.errors import PipelineError
from tidemark.language.windows import DynamicGapSession
from tidemark.plan.logical import Node


def with_gap(node: Node, window: DynamicGapSession) -> tuple[Node, Session]:
    """Return the stream with a valid gap in every row, and the sessions that use that column.

    Raises:
        PipelineError: the gap is not a column or a row-wise expression of type Int64.
    """
    gap = window.gap
    if isinstance(gap, str):
        require_column(gap, node.columns, f"session(gap): {gap!r} is not a duration")
        column, expression = gap, pl.col(gap)
    else:
        column, expression = GAP_COLUMN, gap
        if column in node.columns:
            raise PipelineError(
                f"session(gap): the stream has a column {column!r} already; pass its name as gap, "
                "or drop it with select()"
            )
    operator = SessionGap(node.columns, expression, column, window.longest_ms)
    types = list(output_types([expression], node.columns, operator.label).values())
    if types != [pl.Int64()]:
        found = ", ".join(map(str, types))
        raise PipelineError(f"{operator.label}: the gap is {found}, not Int64 (milliseconds)")
    require_row_wise(expression, node.columns, operator.label)
    columns = {**node.columns, column: pl.Int64()}
    return Node(columns, (node,), operator), Session(window.longest_ms, column)
