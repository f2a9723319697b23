"""The operator of rules: matches of patterns that come as rows (docs/semantics.md, "Rules")."""

from collections.abc import Sequence
from functools import partial

from tidemark.core.operators.operator import Operator
from tidemark.core.operators.patterns.rules.operator import LATE_RULES, RuleMatch, Rules
from tidemark.core.operators.ports import DEAD, LATE, ROWS, Input, shown_columns
from tidemark.core.rows.expression import whole_text
from tidemark.core.time.duration import duration_text
from tidemark.plan.dataflow import Dataflow, output_topics
from tidemark.plan.logical import RULE_SIDES, RulesStage
from tidemark.plan.operators.joins import deleted_versions, has_tombstones
from tidemark.plan.operators.patterns import described
from tidemark.plan.outputs import PatternOutput, advances
from tidemark.plan.physical import OperatorPlan, PortPlan, StreamPlan
from tidemark.plan.texts import columns_text
from tidemark.serde.rules.document import pattern_of


def rules_operator(
    dataflow: Dataflow,
    output: PatternOutput,
    stage: RulesStage,
    streams: Sequence[StreamPlan],
    log: str,
) -> OperatorPlan:
    """Return the operator that matches rules; ``streams``: of rows and rules, of one ``log``."""
    results, late, changelog = output_topics(dataflow.name, output.name)
    operator = Operator(
        output.name,
        tuple(
            Input((each.name,), each.key, each.columns, each.topics, side)
            for side, each in zip(RULE_SIDES, streams, strict=True)
        ),
        rules_body(stage, output.name),
        stage.max_within_ms,
        advances=advances(output),
    )
    topics = {
        ROWS: "" if output.results else results,
        LATE: late,
        LATE_RULES: f"{results}.{LATE_RULES}",
        DEAD: dataflow.dead_letters,
    }
    rows, table = streams
    return OperatorPlan(
        service="patterns",
        log=log,
        operator=operator,
        ports=tuple(PortPlan(port, topics[port.name], output.format) for port in operator.outputs),
        changelog=changelog,
        dead_letters=dataflow.dead_letters,
        description=described(stage, _text(stage), "rule and key"),
        state_signature={
            "stream": rows.name,
            "rules": table.name,
            "key": columns_text(rows.key, rows.columns),
            "table key": columns_text(table.key, table.columns),
            "pattern": _text(stage),
            "partial matches": f"at most {stage.max_partial}",
            # A rule may name any column.
            "types": columns_text(sorted(stage.node.columns), rows.columns),
        },
        reads=frozenset((*stage.node.columns, *table.columns)),
    )


def rules_body(stage: RulesStage, operator: str) -> RuleMatch:
    """Return the body of rules; ``operator``: its name."""
    node, (name,) = stage.table
    deleted = deleted_versions(node, stage.deleted)
    columns = shown_columns(stage.node.columns)
    pattern = partial(pattern_of, columns=columns, max_within_ms=stage.max_within_ms)
    table = Rules(
        node.columns,
        name,
        stage.text,
        stage.keep_ms,
        pattern,
        stage.wait,
        deleted,
        stage.max_rows,
    )
    return RuleMatch(
        RULE_SIDES,
        table,
        stage.key,
        stage.node.columns,
        stage.steps,
        stage.values,
        stage.max_partial,
        stage.timeouts,
        operator,
    )


def _text(stage: RulesStage) -> str:
    """Return all that the matches of rules depend on, besides the rules."""
    text = f"rules of {stage.text}, at most {duration_text(stage.max_within_ms)}"
    if stage.wait == "arrival":
        text += ", on arrival"
    else:
        text += f", keep {duration_text(stage.keep_ms)}"
    if stage.deleted is not None:
        text += f", deleted {whole_text(stage.deleted)}"
    if has_tombstones(stage.table.node):
        text += ", tombstones"
    return text


def rules_name(stage: RulesStage) -> tuple[str, ...]:
    """Return the rules as a part of the name of a stage."""
    return ("rules", *stage.values)
