"""Stages: the operators whose results feed other operators (docs/semantics.md, "Chains").

Each is an operator of its own.  After "final" one on windows publishes a window once, whatever the
trigger of an output on the same aggregates is, so its results are only appended.  After "every" it
publishes panes as the trigger says, each after the withdrawal of the one before.  The name of a
stage is made of its key and of what it does; docs/decisions/0037 says why.
"""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tidemark.core.operators.ports import DEAD, REASON, ROW, Port, RowTime, shown_key
from tidemark.core.rows.stateless import StatelessGraph
from tidemark.core.time.segment import EVENT_TIME, OFFSET
from tidemark.core.windows.arrival import ArrivalWindow
from tidemark.core.windows.trigger import OnFinal
from tidemark.errors import PipelineError
from tidemark.plan.dataflow import Dataflow, topics_of
from tidemark.plan.logical import (
    AnyPatternStage,
    AnyStage,
    JoinStage,
    LateStage,
    Node,
    OrderedStage,
    PatternStage,
    RulesStage,
    Stage,
    TableStage,
)
from tidemark.plan.names import LONGEST_TOPIC, progress_topic, stage_name
from tidemark.plan.operators.joins import bounds_name, gathering_name, reach_ms
from tidemark.plan.operators.late import late_output
from tidemark.plan.operators.patterns import pattern_name
from tidemark.plan.operators.rules import rules_name
from tidemark.plan.operators.two_phases import in_two_phases, is_in_two_phases, partials_parts
from tidemark.plan.outputs import AnyOutput, JoinOutput, OrderedOutput, Output, PatternOutput
from tidemark.plan.physical import DerivedPlan, Plan


def with_stages(dataflow: Dataflow) -> tuple[AnyOutput, ...]:
    """Return the outputs, with the stages before them, in the order in which rows pass them.

    Raises:
        PipelineError: an output has the name of a stage, or a topic of one is taken or too long.
    """
    taken: set[str] = set()
    found: dict[Node, AnyOutput] = {}
    ordered: list[AnyOutput] = []

    def add_before(node: Node) -> None:
        for each, stage in node.stages():
            if each not in found:
                for before, _ in stage.inputs:
                    add_before(before)
                name = named(*_parts(stage))
                found[each] = _as_output(each, stage, name, dataflow.partitions)
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
        for node, _ in output.inputs:
            add_before(node)
        add(output)
    _require_topics(dataflow, [output for output in ordered if output.name in taken])
    return tuple(ordered)


def _require_topics(dataflow: Dataflow, stages: Sequence[AnyOutput]) -> None:
    names = {stage.name for stage in stages}
    for output in dataflow.outputs:
        if output.name in names:
            raise PipelineError(
                f"to({output.name!r}): a stage of the pipeline has this name; choose another name"
            )
    taken = dataflow.topics()
    for stage in stages:
        _, *own = topics_of(dataflow.name, stage)  # a stage does not publish its results
        for topic in (*own, progress_topic(dataflow.name, stage.name)):
            if topic in taken:
                raise PipelineError(
                    f"topic {topic!r} belongs to stage {stage.name!r}; give the output another "
                    "name, or the source another topic"
                )
            if len(topic) > LONGEST_TOPIC:
                raise PipelineError(
                    f"stage {stage.name!r}: its topic {topic!r} is longer than {LONGEST_TOPIC} "
                    "characters; give the pipeline a shorter name"
                )


def _as_output(node: Node, stage: AnyStage, name: str, partitions: int) -> AnyOutput:
    if isinstance(stage, LateStage):
        return late_output(node, stage, name, partitions)
    if isinstance(stage, JoinStage | TableStage):
        return JoinOutput(name, "json", replace(stage, on_close=False), node)
    if isinstance(stage, AnyPatternStage):
        return PatternOutput(name, "json", stage, node)
    if isinstance(stage, OrderedStage):
        return OrderedOutput(name, "json", stage, node)
    if stage.after == "every":
        return Output(name, "json", stage.windowed, stage.aggregation, node, after=stage.after)
    once = replace(stage.windowed, trigger=OnFinal(), accumulation="accumulating", empty=False)
    return Output(name, "json", once, stage.aggregation, node)


def _parts(stage: AnyStage) -> tuple[str, ...]:
    key = "-".join(shown_key(stage.inputs[0].key)) or "all"
    if isinstance(stage, JoinStage | TableStage):
        return key, f"{stage.how}-join", bounds_name(stage), *gathering_name(stage)
    if isinstance(stage, LateStage):
        return key, *_late_parts(stage.of), "late"
    if isinstance(stage, AnyPatternStage):
        names = rules_name(stage) if isinstance(stage, RulesStage) else pattern_name(stage)
        return key, *names, "timeouts" if stage.timeouts else "matches"
    if isinstance(stage, OrderedStage):
        return key, *stage.rule.name_parts
    values = "-".join(stage.aggregation.aggregates)
    every = () if stage.after == "final" else (stage.after,)
    return key, stage.windowed.window.label, values, *every


def _late_parts(of: Stage | OrderedStage | PatternStage) -> tuple[str, ...]:
    if isinstance(of, OrderedStage):
        return of.rule.name_parts
    return pattern_name(of) if isinstance(of, PatternStage) else (of.windowed.window.label,)


def longest_window_ms(source: Node, outputs: Sequence[AnyOutput]) -> int:
    """Return the length of the windows of event time that a row of a source may be in.

    Lengths add up along a path of stages, since a result is a row of the next windows.  ``outputs``
    has stages before their readers.
    """
    before_ms = {source: 0}
    longest_ms = 0
    for output in outputs:
        passed = (each for node, _ in output.inputs for each in node.ancestors())
        paths_ms = [before_ms[each] for each in passed if each in before_ms]
        if not paths_ms:
            continue
        path_ms = max(paths_ms) + _window_ms(output)
        longest_ms = max(longest_ms, path_ms)
        if output.results is not None:
            before_ms[output.results] = path_ms
    return longest_ms


def _window_ms(output: AnyOutput) -> int:
    """Return the length of windows of event time; of others, and of partials of the same, 0.

    That of a join or of a pattern is how long after a row its results may be.
    """
    if isinstance(output, JoinOutput):
        return reach_ms(output.stage)
    if isinstance(output, PatternOutput):
        return output.stage.within_ms
    if not isinstance(output, Output):
        return 0
    windowed = output.windowed
    timed = not windowed.by_processing_time and not isinstance(windowed.window, ArrivalWindow)
    return windowed.window.longest_ms if timed and not output.merges else 0


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
