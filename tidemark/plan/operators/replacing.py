"""Operators on results that replace each other: what is possible, and their bodies.

See docs/semantics.md, "Every result".
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.operator import Body, WindowBody
from tidemark.core.operators.replacing.slot_windows import SlotWindows, is_supported
from tidemark.core.operators.replacing.withdrawing import Withdrawing
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.windows.arrival import ArrivalWindow
from tidemark.core.windows.trigger import OnFinal
from tidemark.errors import PipelineError
from tidemark.plan.logical import Node, WindowDefinition
from tidemark.plan.outputs import Output


def body_on(output: Output, plain: Callable[[Output], WindowBody]) -> WindowBody:
    """Return the body of the windows of an output; ``plain``: makes that of rows that stay."""
    windowed = output.windowed
    if not windowed.node.replaces:
        return plain(output)
    at_end = replace(windowed, trigger=OnFinal(), allowed_lateness_ms=0)
    inner = plain(replace(output, windowed=at_end))
    assert isinstance(inner, WindowAggregate | SlidingAggregate | SessionAggregate)
    return SlotWindows(inner, windowed.allowed_lateness_ms, windowed.trigger)


def handing_on(body: Body, output: Output) -> Body:
    """Return the body of an output; of a stage after every pane, it withdraws what it replaces."""
    if output.after == "final":
        return body
    return Withdrawing(body, output.windowed.key, output.windowed.allowed_lateness_ms)


def require_replaceable(windowed: WindowDefinition) -> None:
    """Raise PipelineError if rows replace each other, and windows cannot take back a row."""
    if not windowed.node.replaces:
        return
    refusal = _refusal(windowed)
    if refusal is not None:
        raise PipelineError(
            f"window: rows of updates() replace each other, and {refusal}, or leave out updates() "
            "for one row a window once it is final"
        )


def _refusal(windowed: WindowDefinition) -> str | None:
    if isinstance(windowed.window, ArrivalWindow):
        return (
            "windows in order of arrival, and running aggregates, cannot take back a row; use "
            "windows of event time"
        )
    if windowed.by_processing_time:
        return "windows of processing time cannot take back a row; use windows of event time"
    if windowed.accumulation == "discarding":
        return "discarding panes cannot take back a row; use accumulating ones"
    if windowed.lateness == "after_merging":
        return 'lateness="after_merging" has no bound for the rows taken back; use "strict"'
    if windowed.empty:
        return "empty=True cannot follow them; leave it out"
    if not is_supported(windowed.trigger):
        return (
            f"trigger {windowed.trigger!r} counts rows; use on_close(), on_final() or on_update()"
        )
    return None


def require_no_arrival(node: Node, aggregation: Aggregation) -> None:
    """Raise PipelineError if rows replace each other, and an aggregate needs their arrival."""
    if node.replaces and aggregation.by_arrival:
        raise PipelineError(
            'aggregate: rows of updates() replace each other and have no order="arrival"; leave '
            "out order"
        )


def require_rows_that_stay(nodes: Sequence[Node], what: str) -> None:
    """Raise PipelineError if rows of one of the streams replace each other.

    Several streams may be parts of one such stream.
    """
    if not any(node.replaces for node in nodes):
        return
    stages = {stage for node in nodes for stage, _ in node.stages()}
    if len(nodes) > 1 and len(stages) == 1 and not any(node.topics() for node in nodes):
        return
    raise PipelineError(
        f"{what}: rows of updates() replace each other, so only windows can read them; publish "
        "panes with to() of the aggregates, or leave out updates()"
    )
