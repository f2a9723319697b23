"""Stages: the operators whose results feed other operators (docs/semantics.md, "Chains").

Each is an operator of its own.  After "final" one on windows publishes a window once, whatever the
trigger of an output on the same aggregates is, so its results are only appended.  After "every" it
publishes panes as the trigger says, each after the withdrawal of the one before.  The name of a
stage is made of its key and of what it does; docs/decisions/0037 says why.
"""

from collections.abc import Collection
from dataclasses import replace

import polars as pl

from tidemark.core.operators.ports import CHANGES, DEAD, REASON, ROW, Port, RowTime, shown_key
from tidemark.core.rows.stateless import StatelessGraph
from tidemark.core.time.segment import EVENT_TIME, OFFSET
from tidemark.core.windows.trigger import OnFinal
from tidemark.errors import ConfigurationError, PipelineError
from tidemark.plan.logical import (
    AnyOutput,
    Dataflow,
    Node,
    OrderedOutput,
    OrderedStage,
    Output,
    Stage,
    output_topics,
)
from tidemark.plan.names import LONGEST_TOPIC, progress_topic, stage_name
from tidemark.plan.physical import DerivedPlan, Plan
from tidemark.plan.two_phases import in_two_phases, is_in_two_phases, partials_parts


def with_stages(dataflow: Dataflow) -> tuple[AnyOutput, ...]:
    """Return the outputs, with the stages before them, in the order in which rows pass them.

    Raises:
        PipelineError: an output has the name of a stage, or a topic of one is taken or too long.
    """
    taken: set[str] = set()
    found: dict[Node, Output | OrderedOutput] = {}
    ordered: list[AnyOutput] = []

    def add_before(node: Node) -> None:
        for each, stage in node.stages():
            if each not in found:
                add_before(stage.node)
                found[each] = _as_output(each, stage, named(*_parts(stage)))
                add(found[each])

    def add(output: AnyOutput) -> None:
        if isinstance(output, Output) and is_in_two_phases(output, dataflow.partitions):
            ordered.extend(in_two_phases(output, named(*partials_parts(output))))
        else:
            ordered.append(output)

    def named(*parts: str) -> str:
        name = stage_name(parts, taken)
        taken.add(name)
        return name

    for output in dataflow.outputs:
        add_before(output.node)
        add(output)
    _require_topics(dataflow, taken)
    return tuple(ordered)


def _require_topics(dataflow: Dataflow, stages: Collection[str]) -> None:
    for output in dataflow.outputs:
        if output.name in stages:
            raise PipelineError(
                f"to({output.name!r}): a stage of the pipeline has this name; choose another name"
            )
    taken = dataflow.topics()
    for stage in sorted(stages):
        _, late, changelog = output_topics(dataflow.name, stage)
        for topic in (late, changelog, progress_topic(dataflow.name, stage)):
            if topic in taken:
                raise PipelineError(
                    f"topic {topic!r} belongs to stage {stage!r}; give the output another name, or "
                    "the source another topic"
                )
            if len(topic) > LONGEST_TOPIC:
                raise PipelineError(
                    f"stage {stage!r}: its topic {topic!r} is longer than {LONGEST_TOPIC} "
                    "characters; give the pipeline a shorter name"
                )


def _as_output(node: Node, stage: Stage | OrderedStage, name: str) -> Output | OrderedOutput:
    if isinstance(stage, OrderedStage):
        return OrderedOutput(name, "json", stage, node)
    if stage.after == "every":
        return Output(name, "json", stage.windowed, stage.aggregation, node, after=stage.after)
    once = replace(stage.windowed, trigger=OnFinal(), accumulation="accumulating", empty=False)
    return Output(name, "json", once, stage.aggregation, node)


def _parts(stage: Stage | OrderedStage) -> tuple[str, ...]:
    key = "-".join(shown_key(stage.key)) or "all"
    if isinstance(stage, OrderedStage):
        return key, *stage.rule.name_parts
    values = "-".join(stage.aggregation.aggregates)
    every = () if stage.after == "final" else (stage.after,)
    return key, stage.windowed.window.label, values, *every


def derived_plan(operator: str, port: Port, graph: StatelessGraph) -> DerivedPlan:
    """Return what an operator hands on: rows of ``port``, through ``graph``.

    Raises:
        PipelineError: a row operator reads a metadata column, which results do not have.
    """
    if graph.metadata:
        raise PipelineError(
            f"column {graph.metadata[0]!r} is of a Kafka record, and results of operators do not "
            "have it; carry it along as a value, such as max(...)"
        )
    columns = graph.steps[0].columns
    # Rows in order of event time do not have their identity as columns.
    named = port.identity if columns.keys() >= set(port.identity) else port.key or (OFFSET,)
    dead = Port(
        f"{DEAD}-{operator}",
        DEAD,
        {REASON: pl.String(), ROW: pl.Struct(dict(columns))},
        port.key,
        message_key=named,
        identity=(),
        row_time=RowTime(EVENT_TIME),
        stage=operator,
    )
    return DerivedPlan(operator, port, graph, dead)


def readers(plan: Plan, operator: str) -> tuple[str, ...]:
    """Return the operators that read the results of an operator."""
    derived = plan.derived_of(operator)
    if derived is None:
        return ()
    return tuple(it.name for it in plan.operators if derived.source in it.operator.sources)


def require_no_chain(plan: Plan, what: str) -> None:
    """Raise ConfigurationError if operators read the results of others; ``what``: cannot run it."""
    if plan.derived:
        sources = {each.source for each in plan.derived}
        fed = [each.name for each in plan.operators if each.operator.sources & sources]
        raise ConfigurationError(
            f"{what} cannot run operators on results yet, and {', '.join(fed)} reads results of "
            f"{', '.join(each.operator for each in plan.derived)}: 'tidemark reset PIPELINE "
            "--delete-results' computes everything from the raw topics"
        )


def require_no_updates(plan: Plan, stages: Collection[str]) -> None:
    """Raise ConfigurationError if stages that must run again hand on every result."""
    updates = [each.operator for each in plan.derived if each.port.mode == CHANGES]
    found = [name for name in updates if name in stages]
    if found:
        raise ConfigurationError(
            f"a replay cannot run stages with updates() again yet, and {', '.join(found)} would "
            "have to; replay from the log, with the stages as they were recorded"
        )
