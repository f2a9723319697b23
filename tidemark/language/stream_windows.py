"""Windows that depend on the stream: those of its results, and sessions with a gap in each row."""

import polars as pl

from tidemark.core.rows.expression import output_types, require_column
from tidemark.core.rows.probe import require_row_wise
from tidemark.core.rows.session_gap import GAP_COLUMN, SessionGap
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.window import Hopping, Same, Session
from tidemark.errors import PipelineError
from tidemark.language.windows import DynamicGapSession
from tidemark.plan.logical import LateStage, Node, Stage
from tidemark.plan.operators.two_phases import windows_of_results


def same_windows(node: Node) -> Hopping | Calendar | Same:
    """Return the windows of ``same()``, which hold the results of one window each.

    Raises:
        PipelineError: the rows are not results, or not results of the same aligned windows.
    """
    stages = [stage for _, stage in node.stages()]
    found = {stage.windowed.window for stage in stages if isinstance(stage, Stage)}
    if node.topics() or not all(isinstance(stage, Stage) for stage in stages):
        is_late = any(isinstance(stage, LateStage) for stage in stages)
        results = "late" if is_late else "distinct_by(), scan() or join()"
        rows = "a source" if node.topics() else results
        raise PipelineError(
            f"window(same()): rows of {rows} have no window; use it on a stream of aggregate()"
        )
    if len(found) > 1:
        texts = ", ".join(sorted(str(each.label) for each in found))
        raise PipelineError(f"window(same()): the rows are results of different windows: {texts}")
    (windows,) = found
    if not isinstance(windows, Hopping | Calendar | Same):
        raise PipelineError(
            f"window(same()): {windows.label} has other windows for each key; only tumbling(), "
            "hopping() and calendar() have windows that keys share"
        )
    return windows_of_results(windows)


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
