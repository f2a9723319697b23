"""Late rows as a stream: the operator that finds them, and what can read them.

See docs/semantics.md, "Late rows as a stream".
"""

from collections.abc import Callable
from dataclasses import replace

from tidemark.core.operators.late_rows import LATE_FIELDS, OWN_WATERMARK, JudgesRows, LateRows
from tidemark.core.operators.operator import Operator, WindowBody
from tidemark.core.operators.ports import Input, shown_columns
from tidemark.core.operators.rows import row_fields
from tidemark.core.operators.waiting_rows import JudgesByTime
from tidemark.core.rows.schema import INSTANT
from tidemark.core.windows.arrival import ArrivalWindow, CountWindow
from tidemark.core.windows.pane import END, START
from tidemark.core.windows.trigger import OnClose
from tidemark.core.windows.window import Session
from tidemark.errors import PipelineError
from tidemark.plan.dataflow import Dataflow, output_topics
from tidemark.plan.logical import (
    LateStage,
    Node,
    OrderedStage,
    PatternStage,
    Stage,
    WindowDefinition,
)
from tidemark.plan.operators.patterns import pattern_text
from tidemark.plan.operators.two_phases import is_in_two_phases
from tidemark.plan.outputs import LateOutput, Output, advances
from tidemark.plan.physical import OperatorPlan, PortPlan, StreamPlan
from tidemark.plan.texts import columns_text, windows_text

_INSTANTS = (START, END, OWN_WATERMARK)


def late_node(stage: Stage | OrderedStage | PatternStage) -> Node:
    """Return the stream of the late rows of a stage.

    Raises:
        PipelineError: a column of the rows has the name of a field of every late row.
    """
    ((node, _),) = stage.inputs
    shown = shown_columns(node.columns)
    for name in shown:
        if name in LATE_FIELDS or name in row_fields(by_id=True):
            raise PipelineError(
                f"late: column {name!r} clashes with a field of every late row; give the column "
                f"another name before key_by, such as select(..., row_{name}={name!r})"
            )
    fields = {name: INSTANT if name in _INSTANTS else LATE_FIELDS[name] for name in LATE_FIELDS}
    return Node({**shown, **fields}, stage=LateStage(stage))


def late_output(node: Node, stage: LateStage, name: str, partitions: int) -> LateOutput:
    """Return the stage of late rows as an output; it reads the log that the windows read."""
    of = stage.of
    inputs = of.inputs
    if isinstance(of, Stage):
        published = Output(name, "json", of.windowed, of.aggregation)
        if is_in_two_phases(published, partitions):
            inputs = (inputs[0]._replace(key=()),)
    return LateOutput(name, "json", stage, node, inputs)


def late_operator(
    dataflow: Dataflow,
    output: LateOutput,
    stream: StreamPlan,
    log: str,
    body: Callable[[Output], WindowBody],
) -> OperatorPlan:
    """Return the operator that finds late rows of ``stream``.

    ``log``: its topic.  ``body``: makes the operator on windows of an output.
    """
    _, _, changelog = output_topics(dataflow.name, output.name)
    ((node, key),) = output.inputs
    operator = Operator(
        output.name,
        (Input((stream.name,), stream.key, stream.columns, stream.topics),),
        LateRows(_judge(output, body), key, node.columns),
        advances=advances(output),
    )
    text = f"late rows of {_judge_text(output.stage)}"
    return OperatorPlan(
        service="windowing",
        log=log,
        operator=operator,
        ports=tuple(PortPlan(port, "", output.format) for port in operator.outputs),
        changelog=changelog,
        dead_letters=dataflow.dead_letters,
        description=text,
        state_signature={
            "stream": stream.name,
            "key": columns_text(stream.key, stream.columns),
            "results": text,
        },
    )


def _plain(windowed: WindowDefinition) -> WindowDefinition:
    """Return the windows with no more options than decide what is late."""
    return replace(windowed, trigger=OnClose(), accumulation="accumulating", empty=False)


def _judge(output: LateOutput, body: Callable[[Output], WindowBody]) -> JudgesRows:
    of = output.stage.of
    if not isinstance(of, Stage) or isinstance(of.windowed.window, ArrivalWindow):
        return JudgesByTime()
    found = body(Output(output.name, output.format, _plain(of.windowed), of.aggregation))
    assert hasattr(found, "late_of"), f"{output.name}: {found} needs state to find late rows"
    return found


def _judge_text(stage: LateStage) -> str:
    of = stage.of
    if isinstance(of, PatternStage):
        return f"pattern {pattern_text(of.pattern)}"
    return str(of.rule) if isinstance(of, OrderedStage) else windows_text(_plain(of.windowed))


def require_late_rows(windowed: WindowDefinition) -> None:
    """Raise PipelineError if windows have no late rows, or state decides which rows are."""
    refusal = _refusal(windowed)
    if refusal is not None:
        raise PipelineError(f"late: {refusal}")


def _refusal(windowed: WindowDefinition) -> str | None:
    window = windowed.window
    if windowed.node.replaces:
        return "rows of updates() are never late; read the late rows of the windows before"
    if windowed.by_processing_time:
        return "windows of processing time have no late rows"
    if isinstance(window, ArrivalWindow):
        if isinstance(window, CountWindow) and window.by_event_time:
            return None
        return "windows in order of arrival, and running aggregates, have no late rows"
    if isinstance(window, Session) and windowed.lateness == "after_merging":
        return (
            'with lateness="after_merging" the other rows of a session decide what is late; use '
            '"strict", or publish the windows with to(), which publishes late rows on a topic'
        )
    return None


def require_not_late(node: Node, what: str) -> None:
    """Raise PipelineError if rows are late rows, and an operator without allowed lateness reads."""
    if any(isinstance(stage, LateStage) for _, stage in node.stages()):
        raise PipelineError(
            f"{what}: rows of late are behind their watermark, and {what.split('(')[0]} takes no "
            "such row; use windows of event time with allowed_lateness"
        )
