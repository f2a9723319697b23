"""The operators whose results are rows: rows as they are, and rows in order of event time.

See docs/semantics.md, "Rows" and "Operators in order of event time".
"""

from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ordered.operator import OrderedRows
from tidemark.core.operators.ports import LATE, ROWS, Input
from tidemark.core.operators.rows import PublishRows
from tidemark.plan.dataflow import Dataflow, output_topics
from tidemark.plan.outputs import OrderedOutput, RowsOutput, advances
from tidemark.plan.physical import OperatorPlan, PortPlan, StreamPlan
from tidemark.plan.texts import columns_text

DESCRIPTION = "rows"

_HORIZON_MS = 1
"""A row in order is due when the clock is later than its event time."""


def rows_operator(
    dataflow: Dataflow, output: RowsOutput, stream: StreamPlan, log: str
) -> OperatorPlan:
    """Return the operator that publishes the rows of ``stream``; ``log``: its topic."""
    results, _, changelog = output_topics(dataflow.name, output.name)
    operator = Operator(
        output.name,
        (Input((stream.name,), stream.key, stream.columns, stream.topics),),
        PublishRows(output.key, output.node.columns, by_id=output.node.is_of_stages),
        advances=advances(output),
    )
    return OperatorPlan(
        service="windowing",
        log=log,
        operator=operator,
        ports=tuple(PortPlan(port, results, output.format) for port in operator.outputs),
        changelog=changelog,
        dead_letters=dataflow.dead_letters,
        description=DESCRIPTION,
        state_signature={
            "stream": stream.name,
            "key": columns_text(stream.key, stream.columns),
            "results": DESCRIPTION,
        },
    )


def ordered_operator(
    dataflow: Dataflow, output: OrderedOutput, stream: StreamPlan, log: str
) -> OperatorPlan:
    """Return the operator that puts the rows of ``stream`` in order; ``log``: its topic."""
    is_stage = output.results is not None
    results, late, changelog = output_topics(dataflow.name, output.name)
    topics = {ROWS: "" if is_stage else results, LATE: late}
    stage = output.stage
    rule = stage.rule
    by_id = not is_stage and stage.node.is_of_stages
    body = OrderedRows(rule, stage.key, stage.node.columns, keeps_bytes=is_stage, by_id=by_id)
    operator = Operator(
        output.name,
        (Input((stream.name,), stream.key, stream.columns, stream.topics),),
        body,
        _HORIZON_MS,
        advances=advances(output),
    )
    return OperatorPlan(
        service="windowing",
        log=log,
        operator=operator,
        ports=tuple(PortPlan(port, topics[port.kind], output.format) for port in operator.outputs),
        changelog=changelog,
        dead_letters=dataflow.dead_letters,
        description=str(rule),
        state_signature={
            "stream": stream.name,
            "key": columns_text(stream.key, stream.columns),
            "rule": str(rule),
            "types": columns_text(sorted(rule.reads), stream.columns),
        },
        reads=rule.reads,
    )
