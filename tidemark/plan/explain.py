"""Print a plan: the logical graph and the physical plan, as text and as a Mermaid diagram."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl

from tidemark.core.operators.ports import LATE, shown_key
from tidemark.core.rows.expression import expression_text
from tidemark.core.time.assigners import ColumnTime, EventTime, ExpressionTime, RecordTime
from tidemark.core.time.duration import duration_text, span_text
from tidemark.core.time.event_time import instant_text
from tidemark.core.time.segment import is_operator_source
from tidemark.core.time.watermark import Bounded, Punctuated, Watermark
from tidemark.plan.names import progress_topic
from tidemark.plan.physical import LogPlan, OperatorPlan, Plan, PortPlan, SourcePlan
from tidemark.plan.static_table import StaticTable
from tidemark.serde.formats.source_format import JSON


@dataclass
class _Graph:
    """The logical graph: labels and inputs by node name, in topological order."""

    labels: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, node: str, label: str, inputs: Iterable[str] = ()) -> None:
        """Add a node, or further inputs of an existing node."""
        self.labels.setdefault(node, label)
        self.inputs.setdefault(node, {}).update(dict.fromkeys(inputs))


def render_text(plan: Plan) -> str:
    """Return the logical graph, then services, topics and tasks, as text."""
    return "\n".join(
        [
            f"pipeline {plan.pipeline}",
            "",
            "logical graph",
            *_graph_lines(_logical(plan)),
            "",
            "physical plan",
            *_table(("service", "reads", "writes", "tasks"), _service_rows(plan)),
            "",
            *_table(("topic", "partitions", "what"), _topic_rows(plan)),
            "",
            f"  a silent source is reported for {span_text(plan.horizon_ms)}",
            f"  fingerprint {plan.fingerprint}",
        ]
    )


def render_mermaid(plan: Plan) -> str:
    """Return the logical graph and the physical plan as one Mermaid flowchart."""
    graph = _logical(plan)
    return "\n".join(
        [
            "flowchart LR",
            '  subgraph logical["logical graph"]',
            *(f'    {node}["{_escaped(label)}"]' for node, label in graph.labels.items()),
            *(
                f"    {source} --> {node}"
                for node, sources in graph.inputs.items()
                for source in sources
            ),
            "  end",
            '  subgraph physical["physical plan"]',
            *_mermaid_services(plan),
            "  end",
        ]
    )


def _logical(plan: Plan) -> _Graph:
    graph = _Graph()
    ends: dict[str, list[str]] = {}
    for source in plan.sources:
        steps = source.graph.steps
        for step in steps:
            label = step.label if step.inputs else _source_text(source)
            graph.add(f"n{step.number}", label, (f"n{steps[i].number}" for i in step.inputs))
        for name, keyed in source.graph.streams.items():
            ends.setdefault(name, []).append(f"n{steps[keyed.step].number}")
    number = {each.name: index for index, each in enumerate(plan.operators)}
    for derived in plan.derived:
        steps = derived.graph.steps
        for step in steps:
            label = step.label if step.inputs else f"results of {derived.operator}"
            before = [f"n{steps[i].number}" for i in step.inputs]
            graph.add(f"n{step.number}", label, before or [f"o{number[derived.operator]}"])
        for name, keyed in derived.graph.streams.items():
            ends.setdefault(name, []).append(f"n{steps[keyed.step].number}")
    # After a union, a node may have been added before one of its inputs.
    graph.labels = dict(sorted(graph.labels.items(), key=lambda item: int(item[0][1:])))
    streams = [stream for log in plan.logs for stream in log.streams]
    for index, stream in enumerate(streams):
        key = ", ".join(shown_key(stream.key))
        graph.add(
            f"k{index}", f"key_by({key})" if stream.key else "partitions kept", ends[stream.name]
        )
    keyed_by = {stream.name: f"k{index}" for index, stream in enumerate(streams)}
    for index, operator in enumerate(plan.operators):
        read = [name for each in operator.operator.inputs for name in each.streams]
        graph.add(f"o{index}", _operator_text(operator), [keyed_by[name] for name in read])
        if operator.results.topic:
            to = f"to {operator.name} ({operator.results.format})"
            graph.add(f"t{index}", to, [f"o{index}"])
    return _in_order(graph)


def _in_order(graph: _Graph) -> _Graph:
    """Return the graph with each node after its inputs, otherwise in the order that it has."""
    ordered, waiting = _Graph(), list(graph.labels)
    while waiting:
        node = next(each for each in waiting if graph.inputs[each].keys() <= ordered.labels.keys())
        ordered.add(node, graph.labels[node], graph.inputs[node])
        waiting.remove(node)
    return ordered


def _operator_text(operator: OperatorPlan) -> str:
    why = operator.one_task
    return f"{operator.description}{f'; one task takes all rows: {why}' if why else ''}"


def _source_text(source: SourcePlan) -> str:
    if source.static is not None:
        return _static_text(source, source.static)
    columns = ", ".join(f"{name} {text}" for name, text in source.schema.texts().items())
    form = [] if source.format == JSON else [f"format {source.format}"]
    parts = [
        f"source {_topics(source)} ({columns})",
        *form,
        f"event time {event_time_text(source.event_time)}",
        f"watermark {watermark_text(source.watermark)}",
        f"idle after {duration_text(source.idle_after_ms)}",
    ]
    if source.waits:
        parts.append("waits when silent")
    if source.loads:
        parts.append("read to its end first")
    if source.min_time_ms is not None:
        parts.append(f"min time {instant_text(source.min_time_ms)}")
    if source.max_future_ms is not None:
        parts.append(f"max future {duration_text(source.max_future_ms)}")
    if source.max_drift_ms is not None:
        parts.append(f"max drift {duration_text(source.max_drift_ms)}")
    return ", ".join(parts)


def _static_text(source: SourcePlan, table: StaticTable) -> str:
    texts = source.schema.texts().items()
    columns = ", ".join(f"{name} {text}" for name, text in texts if not name.startswith("@"))
    every = "" if table.reload_ms is None else f", read every {duration_text(table.reload_ms)}"
    key = ", ".join(table.key)
    return f"static table {_topics(source)} ({columns}), key {key}, from {table}{every}"


def _topics(source: SourcePlan) -> str:
    return ", ".join(source.topics)


def event_time_text(time: EventTime, expression: Callable[[pl.Expr], str] = expression_text) -> str:
    """Return where event time comes from; ``expression`` returns an expression as text."""
    if isinstance(time, ColumnTime):
        return f"{time.column} ({' '.join(filter(None, (', '.join(time.units), time.zone)))})"
    if isinstance(time, ExpressionTime):
        return expression(time.expression)
    return "of the record" if isinstance(time, RecordTime) else "of ingest"


def watermark_text(
    watermark: Watermark, expression: Callable[[pl.Expr], str] = expression_text
) -> str:
    """Return a watermark as its constructor; ``expression`` returns an expression as text."""
    if isinstance(watermark, Punctuated):
        return f"punctuated({expression(watermark.when)})"
    if not isinstance(watermark, Bounded):
        return f"from_expression({expression(watermark.candidate)})"
    delay_ms = watermark.delay_ms
    return f"bounded({duration_text(delay_ms)})" if delay_ms else "monotonic()"


def _graph_lines(graph: _Graph) -> list[str]:
    number = {node: index for index, node in enumerate(graph.labels, 1)}
    lines = []
    for node, label in graph.labels.items():
        inputs = ", ".join(str(number[source]) for source in graph.inputs[node])
        lines.append(f"  {number[node]:>3}  {label}{f'  <- {inputs}' if inputs else ''}")
    return lines


def _service_rows(plan: Plan) -> list[tuple[str, ...]]:
    logs = ", ".join(log.topic for log in _of_ingest(plan))
    raw = ", ".join(map(_topics, plan.sources))
    rows: list[tuple[str, ...]] = [
        ("ingest", raw, f"{logs}, {plan.dead_letters}", "1 per raw partition")
    ]
    partitions = {log.topic: log.partitions for log in plan.logs}
    for service in plan.services():
        operators = plan.of_service(service)
        if operators:
            read = list(dict.fromkeys(operator.log for operator in operators))
            tasks = sum(partitions[topic] for topic in read)
            written = [each.results.topic for each in operators if each.results.topic]
            written += [log for log in _handed_on(plan, operators) if log not in written]
            tasks_text = f"{tasks}, 1 per log partition"
            rows.append((service, ", ".join(read), ", ".join(written), tasks_text))
    return rows


def _of_ingest(plan: Plan) -> list[LogPlan]:
    """Return the logs that ingest writes: those of raw topics."""
    return [log for log in plan.logs if not all(map(is_operator_source, log.topics))]


def _handed_on(plan: Plan, operators: Iterable[OperatorPlan]) -> list[str]:
    """Return the topics of the logs that operators write."""
    found = filter(None, (plan.derived_of(each.name) for each in operators))
    return list(dict.fromkeys(log.topic for derived in found for log in plan.fed_by(derived)))


def _topic_rows(plan: Plan) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (topic, *(("as it is", "raw") if source.static is None else ("1", "static table")))
        for source in plan.sources
        for topic in source.topics
    ]
    partitions = {log.topic: str(log.partitions) for log in plan.logs}
    rows += [(topic, count, "log") for topic, count in partitions.items()]
    for operator in plan.operators:
        count = partitions[operator.log]
        rows += [(each.topic, count, _content(each)) for each in operator.published]
        rows.append((operator.changelog, count, "state"))
        if plan.derived_of(operator.name) is not None:
            progress = progress_topic(plan.pipeline, operator.name)
            rows.append((progress, "1", "what each partition has reached"))
    return [
        *rows,
        (plan.dead_letters, "1", "dead letters"),
        (plan.generations, "1", "where the results of each state begin"),
        (plan.stats, "1", "stats"),
    ]


def _content(port: PortPlan) -> str:
    return "late rows" if port.port.kind == LATE else f"results, {port.format}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return [
        "  "
        + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    ]


def _mermaid_services(plan: Plan) -> list[str]:
    names: dict[str, str] = {}

    def topic(name: str) -> str:
        known = name in names
        node = names.setdefault(name, f"p{len(names)}")
        return node if known else f'{node}[("{_escaped(name)}")]'

    lines = [f"    {topic(name)} --> ingest" for source in plan.sources for name in source.topics]
    lines += [f"    ingest --> {topic(log.topic)}" for log in _of_ingest(plan)]
    lines.append(f"    ingest --> {topic(plan.dead_letters)}")
    for service in plan.services():
        operators = plan.of_service(service)
        logs = dict.fromkeys(operator.log for operator in operators)
        lines += [f"    {topic(log)} --> {service}" for log in logs]
        for operator in operators:
            lines += [f"    {service} --> {topic(name)}" for name in operator.topics]
            lines.append(f"    {service} <--> {topic(operator.changelog)}")
        lines += [f"    {service} --> {topic(log)}" for log in _handed_on(plan, operators)]
    return lines


def _escaped(text: str) -> str:
    """Return text with the characters of Mermaid's syntax as entity codes."""
    codes = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;"}
    return "".join(codes.get(character, character) for character in text)
