"""The compiler from the logical graph to the physical plan: topics, stateless graphs, operators.

Names come from the user's names, in the order of the pipeline's text, so every process compiles the
same plan.  Where logs exist, streams take their names and logs from the record (placement.py).
docs/semantics.md specifies the operators that the compiler chooses ("Windows", "Sessions",
"Panes").
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from tidemark.core.operators.aligned.gap_filled import GapFilled
from tidemark.core.operators.aligned.operator import WindowAggregate
from tidemark.core.operators.aligned.two_phases import MergedWindows, PartialWindows
from tidemark.core.operators.arrival.discarding import DiscardingArrival
from tidemark.core.operators.arrival.in_event_time import InEventTime
from tidemark.core.operators.arrival.operator import ArrivalAggregate
from tidemark.core.operators.early import EarlyAggregate
from tidemark.core.operators.guard import Guard
from tidemark.core.operators.late_panes import LateAggregate
from tidemark.core.operators.operator import Body, Operator, WindowBody
from tidemark.core.operators.ports import DEAD, FAILED, LATE, PANES, Input
from tidemark.core.operators.sessions.early import EarlySessionAggregate
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.operators.sliding.operator import SlidingAggregate
from tidemark.core.rows.copies import Copies
from tidemark.core.rows.stateless import KeyedOutput, StatelessGraph, Step
from tidemark.core.time.segment import CHANGE_COLUMNS, TIE, operator_source
from tidemark.core.windows.arrival import ArrivalWindow, CountWindow
from tidemark.core.windows.trigger import Every, OnClose, OnFinal, late_rows_of
from tidemark.core.windows.window import Session, Sliding
from tidemark.errors import PipelineError
from tidemark.plan.columns_read import columns_read, columns_used
from tidemark.plan.dataflow import Dataflow, output_topics
from tidemark.plan.logical import KeyedNode, Node, RulesStage
from tidemark.plan.names import log_topic, source_text
from tidemark.plan.operators.joins import join_operator, require_one_key, table_sources
from tidemark.plan.operators.late import late_operator
from tidemark.plan.operators.patterns import pattern_operator
from tidemark.plan.operators.replacing import body_on, handing_on
from tidemark.plan.operators.rows import ordered_operator, rows_operator
from tidemark.plan.operators.rules import rules_operator
from tidemark.plan.operators.stages import derived_plan, longest_window_ms, with_stages
from tidemark.plan.operators.two_phases import why_one_task
from tidemark.plan.outputs import (
    AnyOutput,
    JoinOutput,
    LateOutput,
    OrderedOutput,
    Output,
    PatternOutput,
    RowsOutput,
    advances,
)
from tidemark.plan.physical import LogPlan, OperatorPlan, Plan, PortPlan, SourcePlan, StreamPlan
from tidemark.plan.texts import aggregates_text, columns_text, described, windows_text

_RECORDED_WITHIN_MS = 60_000
"""The longest time between the reading of a row and its commit, which is its processing time.

Silence is counted from the reading.  So silence is reported for this much longer than windows are
open.
"""


def compile_plan(dataflow: Dataflow) -> Plan:
    """Return the plan of a pipeline.

    Raises:
        PipelineError: no outputs, a source that feeds none, or topics with the same name.
    """
    if not dataflow.outputs:
        raise PipelineError(
            f"pipeline {dataflow.name!r} has no outputs; end a stream with .to('name')"
        )
    outputs = with_stages(dataflow)
    streams = _streams(outputs)
    logs, log_of = _logs(dataflow, streams)
    operators = tuple(_operator(dataflow, output, streams, log_of) for output in outputs)
    numbers = _numbers(dataflow, streams)
    recorded = frozenset(name for each in operators for name in _recorded(each))
    tables = table_sources(outputs)
    sources = tuple(
        replace(
            _source(node, streams, numbers, recorded, longest_window_ms(node, outputs)),
            loads=node in tables,
        )
        for node in dataflow.sources
    )
    derived = tuple(
        derived_plan(output.name, operator.results.port, _graph(output.results, streams, numbers))
        for output, operator in zip(outputs, operators, strict=True)
        if output.results is not None
    )
    _require_distinct(dataflow, [log.topic for log in logs])
    return Plan(dataflow.name, sources, logs, operators, dataflow.dead_letters, derived)


def _streams(outputs: Sequence[AnyOutput]) -> dict[KeyedNode, StreamPlan]:
    """Return the keyed streams, named by their topics; a second one of the topics ends in #2."""
    streams: dict[KeyedNode, StreamPlan] = {}
    counts: dict[str, int] = {}
    names = {output.results: output.name for output in outputs if output.results is not None}
    for node, key in (each for output in outputs for each in output.inputs):
        if (node, key) in streams:
            continue
        stages = [operator_source(names[each]) for each, _ in node.stages()]
        topics = node.topics().union(stages)
        base = "+".join(sorted(topics))
        counts[base] = counts.get(base, 0) + 1
        name = base if counts[base] == 1 else f"{base}#{counts[base]}"
        own = {TIE: pl.Int64()} if stages else {}
        changes = CHANGE_COLUMNS if node.replaces else {}
        columns = {**node.columns, **own, **changes}
        streams[KeyedNode(node, key)] = StreamPlan(name, key, columns, topics)
    return streams


def _logs(
    dataflow: Dataflow, streams: Mapping[KeyedNode, StreamPlan]
) -> tuple[tuple[LogPlan, ...], dict[str, str]]:
    """Return a log for each key domain (names and types), and the log topic of each stream.

    A broadcast stream is in the log of the streams that it is copied to.
    """
    domains: dict[tuple[tuple[str, pl.DataType], ...], list[StreamPlan]] = {}
    for (node, _), stream in streams.items():
        if isinstance(node.operator, Copies):
            domain = tuple(node.operator.beside.items())
        else:
            domain = tuple((name, stream.columns[name]) for name in stream.key)
        domains.setdefault(domain, []).append(stream)
    logs: list[LogPlan] = []
    for domain, members in domains.items():
        key = {name: str(dtype) for name, dtype in domain}
        topic = log_topic(dataflow.name, key, {log.topic for log in logs})
        logs.append(LogPlan(topic, dataflow.partitions, tuple(members)))
    return tuple(logs), {stream.name: log.topic for log in logs for stream in log.streams}


def _numbers(dataflow: Dataflow, streams: Mapping[KeyedNode, StreamPlan]) -> dict[Node, int]:
    """Number the nodes of the logical graph, sources first."""
    numbers = {node: index for index, node in enumerate(dataflow.sources)}
    for end, _ in streams:
        for node in end.ancestors():
            numbers.setdefault(node, len(numbers))
    return numbers


def _source(
    source: Node,
    streams: Mapping[KeyedNode, StreamPlan],
    numbers: Mapping[Node, int],
    recorded: frozenset[str],
    longest_window_ms: int,
) -> SourcePlan:
    assert source.source is not None
    spec = source.source
    graph = _graph(source, streams, numbers)
    what = f"source({source_text(spec.topics)})"
    if not graph.streams:
        raise PipelineError(f"{what} feeds no output")
    require_one_key(graph, what)
    return SourcePlan(
        spec.topics,
        spec.schema,
        spec.event_time,
        spec.watermark,
        spec.idle_after_ms,
        spec.max_future_ms,
        graph,
        spec.min_time_ms,
        spec.waits,
        spec.max_drift_ms,
        recorded=not recorded.isdisjoint(graph.streams),
        longest_window_ms=longest_window_ms if spec.static is None else 0,  # in no window
        declared_at=spec.declared_at,
        format=spec.format,
        static=spec.static,
    )


def _recorded(plan: OperatorPlan) -> frozenset[str]:
    """Return the streams of an operator on processing time; of others, none."""
    return plan.operator.streams if plan.operator.by_processing_time else frozenset()


def _graph(
    source: Node, streams: Mapping[KeyedNode, StreamPlan], numbers: Mapping[Node, int]
) -> StatelessGraph:
    """Return the part of the logical graph that rows of one source pass."""
    steps: list[Step] = [Step(None, (), source.columns, numbers[source])]
    position: dict[Node, int] = {source: 0}
    keyed: dict[str, KeyedOutput] = {}
    for (end, key), stream in streams.items():
        for node in end.ancestors():
            inputs = tuple(position[parent] for parent in node.parents if parent in position)
            if node in position or not inputs:
                continue
            position[node] = len(steps)
            steps.append(Step(node.operator, inputs, node.columns, numbers[node]))
        if end in position:
            keyed[stream.name] = KeyedOutput(position[end], key)
    return StatelessGraph(tuple(steps), keyed)


def _operator(
    dataflow: Dataflow,
    output: AnyOutput,
    streams: Mapping[KeyedNode, StreamPlan],
    log_of: Mapping[str, str],
) -> OperatorPlan:
    read = [streams[each] for each in output.inputs]
    stream, *_ = read
    if isinstance(output, RowsOutput):
        return rows_operator(dataflow, output, stream, log_of[stream.name])
    if isinstance(output, LateOutput):
        return late_operator(dataflow, output, stream, log_of[stream.name], _body)
    if isinstance(output, OrderedOutput):
        return ordered_operator(dataflow, output, stream, log_of[stream.name])
    if isinstance(output, JoinOutput):
        used = columns_used(output, streams)
        return join_operator(dataflow, output, read, log_of[stream.name], used)
    if isinstance(output, PatternOutput):
        if isinstance(output.stage, RulesStage):
            return rules_operator(dataflow, output, output.stage, read, log_of[stream.name])
        return pattern_operator(dataflow, output, output.stage, stream, log_of[stream.name])
    windowed = output.windowed
    results, late, changelog = output_topics(dataflow.name, output.name)
    operator = Operator(
        output.name,
        (Input((stream.name,), stream.key, stream.columns, stream.topics),),
        handing_on(_guarded(body_on(output, _body), output), output),
        _horizon_ms(output),
        advances=advances(output),
        by_arrival=output.aggregation.by_arrival,
        by_processing_time=windowed.by_processing_time,
        merges_within_ms=_horizon_ms(output) if isinstance(windowed.window, Session) else 0,
    )
    published = results if output.results is None else ""
    if output.partials_of:
        _, late, _ = output_topics(dataflow.name, output.partials_of)
    # A pane that failed names the topic that lacks it.
    topic_of = {PANES: published, LATE: late, DEAD: dataflow.dead_letters, FAILED: results}
    return OperatorPlan(
        service="sessions" if isinstance(windowed.window, Session) else "windowing",
        log=log_of[stream.name],
        operator=operator,
        ports=tuple(
            PortPlan(port, topic_of[port.kind], output.format) for port in operator.outputs
        ),
        changelog=changelog,
        dead_letters=dataflow.dead_letters,
        description=described(output),
        state_signature=_state_signature(output, stream),
        reads=columns_read(output),
        one_task=why_one_task(output),
    )


def _horizon_ms(output: Output) -> int:
    windowed = output.windowed
    if output.merges:
        return 1  # a row of partials is of the last millisecond of its window
    horizon_ms = windowed.window.longest_ms + windowed.allowed_lateness_ms
    return horizon_ms + (_RECORDED_WITHIN_MS if windowed.by_processing_time else 0)


def _guarded(body: WindowBody, output: Output) -> Body:
    """Return the body; with a guard around it if its aggregates may fail on a row."""
    aggregation, windowed = output.aggregation, output.windowed
    if not aggregation.refusing or output.merges:
        return body
    name = output.partials_of or output.name
    return Guard(body, aggregation, windowed.key, windowed.node.columns, name)


def _body(output: Output) -> WindowBody:
    windowed = output.windowed
    if isinstance(windowed.window, ArrivalWindow):
        return _arrival_body(output, windowed.window)
    common = (
        output.aggregation,
        windowed.key,
        windowed.node.columns,
        windowed.allowed_lateness_ms,
        windowed.trigger,
    )
    discarding = windowed.accumulation == "discarding"
    plain = not isinstance(windowed.trigger, Every) and not (
        isinstance(windowed.trigger, OnClose) and windowed.trigger.early
    )
    by_count = late_rows_of(windowed.trigger) > 1
    if isinstance(windowed.window, Session):
        grown = output.after == "every"
        sessions = SessionAggregate(windowed.window, *common, windowed.lateness, discarding, grown)
        return sessions if plain else EarlySessionAggregate(sessions)
    if isinstance(windowed.window, Sliding):
        sliding = SlidingAggregate(windowed.window, *common, discarding)
        held_sliding = LateAggregate(sliding) if by_count else sliding
        return held_sliding if plain else EarlyAggregate(held_sliding)
    if output.partials_of:
        return PartialWindows(windowed.window, *common)
    if output.merges:
        return MergedWindows(windowed.window, *common)
    windows = WindowAggregate(windowed.window, *common, discarding)
    if by_count:
        held = LateAggregate(windows)
        return held if plain else EarlyAggregate(held)
    body = windows if plain else EarlyAggregate(windows)
    return GapFilled(body) if windowed.empty else body


def _arrival_body(output: Output, windows: ArrivalWindow) -> WindowBody:
    windowed = output.windowed
    trigger = windowed.trigger
    every = trigger.early if isinstance(trigger, OnClose) else trigger
    if isinstance(every, OnFinal):
        every = None  # on_final is on_close: a closed window is final
    discards = windowed.accumulation == "discarding" and every is not None
    kind = DiscardingArrival if discards else ArrivalAggregate
    body = kind(windows, output.aggregation, windowed.key, windowed.node.columns, every)
    by_event_time = isinstance(windows, CountWindow) and windows.by_event_time
    return InEventTime(body) if by_event_time else body


def _state_signature(output: Output, stream: StreamPlan) -> dict[str, str]:
    """Return the properties that state depends on; other columns of the stream may change."""
    types = output.aggregation.types
    return {
        "stream": stream.name,
        "key": columns_text(stream.key, stream.columns),
        "windows": windows_text(output.windowed),
        "aggregates": aggregates_text(output.aggregation),
        "types": columns_text(types, types),
    }


def _require_distinct(dataflow: Dataflow, logs: Sequence[str]) -> None:
    taken = dataflow.topics()
    for topic in logs:
        if topic in taken:
            raise PipelineError(f"topic {topic!r} is the log of a key; choose another name")
