"""The operator of an output of rows: each row of a stream becomes a result, as it is.

See docs/semantics.md, "Rows".
"""

from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import Input
from tidemark.core.operators.rows import PublishRows
from tidemark.plan.dataflow import Dataflow, output_topics
from tidemark.plan.logical import RowsOutput
from tidemark.plan.physical import OperatorPlan, PortPlan, StreamPlan
from tidemark.plan.texts import columns_text

DESCRIPTION = "rows"


def rows_operator(
    dataflow: Dataflow, output: RowsOutput, stream: StreamPlan, log: str
) -> OperatorPlan:
    """Return the operator that publishes the rows of ``stream``; ``log``: its topic."""
    results, _, changelog = output_topics(dataflow.name, output.name)
    operator = Operator(
        output.name,
        (Input((stream.name,), stream.key, stream.columns, stream.topics),),
        PublishRows(output.key, output.node.columns),
        advances=not any(source.waits for source in output.node.sources()),
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
