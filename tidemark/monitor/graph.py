"""The dataflow as a graph of the dashboard: nodes in columns, edges with rates, and their health.

The plan gives nodes and edges, the status gives health and figures.  Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.core.operators.ports import LATE
from tidemark.core.time.segment import is_operator_source, operator_of, operator_source
from tidemark.monitor.alerts import DEAD_LETTERS, STUCK
from tidemark.monitor.holders import Json
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.service.stats import Stats

GOOD, WAITS, WARN, BAD, PLAIN = "good", "waits", "warn", "bad", "plain"
"""Health: as it should be; waits for a source; an alert; does not work; nothing to be ill."""

INGEST = "ingest"
DEAD = "dead"

Totals = Mapping[tuple[str, str], float]
"""Rates by service and name of the count, over all processes of the service."""


@dataclass
class _Node:
    id: str
    kind: str
    title: str
    text: str = ""
    service: str = ""
    topic: str = ""
    inputs: list[str] = field(default_factory=list)
    column: int = 0


def graph(plan: Plan, status: Json, latest: Sequence[Stats], rates: Totals) -> Json:
    """Return nodes and edges as JSON values.

    ``latest``: the present processes.  A node has ``column`` and ``row``, from 0.  An edge has the
    rate at which rows pass, null where no process counts them.
    """
    nodes = {each.id: each for each in _nodes(plan, latest)}
    _place(nodes)
    ill = _health(plan, status, latest)
    edges = [
        {"from": source, "to": node.id, "rate": _rate(plan, nodes[source], node, rates)}
        for node in nodes.values()
        for source in node.inputs
    ]
    rows: dict[int, int] = defaultdict(int)
    shown = []
    for node in _in_rows(nodes):
        health, why = ill.get(node.id, (GOOD if node.service else PLAIN, ""))
        shown.append(
            {
                "id": node.id,
                "kind": node.kind,
                "title": node.title,
                "text": node.text,
                "service": node.service,
                "topic": node.topic,
                "health": health,
                "why": why,
                "column": node.column,
                "row": rows[node.column],
            }
        )
        rows[node.column] += 1
    return {"nodes": shown, "edges": edges}


def kinds_of_topics(plan: Plan) -> dict[str, str]:
    """Return the topics that people read: results, late rows and dead letters, with their kind."""
    ports = [port for operator in plan.operators for port in operator.published]
    kinds = {each.topic: "late" if each.port.kind == LATE else "results" for each in ports}
    return {**kinds, plan.dead_letters: DEAD}


def alert_node(plan: Plan, alert: Json) -> str:
    """Return the id of the node that an alert is about."""
    subject = alert["subject"]
    if alert["kind"] == STUCK:
        return _source_node(plan, subject)
    service = alert["process"].rpartition("/")[0]
    operators = plan.of_service(service)
    for each in operators:
        if subject == each.changelog:
            return f"operator:{each.name}"
    if operators:
        return f"operator:{operators[0].name}"
    return INGEST if service == INGEST else f"sink:{service}"


def _source_node(plan: Plan, source: str) -> str:
    """Return the id of the node of a source, as the clock of an operator names it."""
    if is_operator_source(source):
        return f"operator:{operator_of(source)}"
    topic = source.rpartition("/")[0]
    read = (each for each in plan.sources if each.reads(topic))
    topics = next((each.topics for each in read), (topic,))
    return f"raw:{topic if topic in topics else topics[0]}"  # or the node of their pattern


def _nodes(plan: Plan, latest: Sequence[Stats]) -> Iterable[_Node]:
    raw = [(topic, source) for source in plan.sources for topic in source.topics]
    for topic, source in raw:
        yield _Node(f"raw:{topic}", "source", topic, str(source.format), topic=topic)
    yield _Node(
        INGEST, "ingest", INGEST, "event time", INGEST, inputs=[f"raw:{topic}" for topic, _ in raw]
    )
    yield _Node(
        DEAD, "topic", "dead letters", plan.dead_letters, "", plan.dead_letters, inputs=[INGEST]
    )
    for log in plan.logs:
        derived = [each for each in plan.derived if each.source in log.topics]
        feeds = [f"operator:{each.operator}" for each in derived]
        if log.topics - {each.source for each in derived}:
            feeds.insert(0, INGEST)
        title = f"by {', '.join(log.key)}" if log.key else "log"
        yield _Node(f"log:{log.topic}", "log", title, log.topic, topic=log.topic, inputs=feeds)
    published = {topic: each.name for each in plan.operators for topic in _results(each)}
    for each in plan.operators:
        name = f"operator:{each.name}"
        about = each.description
        yield _Node(name, "operator", each.name, about, each.service, inputs=[f"log:{each.log}"])
        for topic in _results(each):
            title = topic.removeprefix(f"{plan.pipeline}.")
            yield _Node(f"topic:{topic}", "topic", title, "results", "", topic, inputs=[name])
    services = set(plan.services())
    sinks: dict[str, set[str]] = defaultdict(set)
    for stats in latest:
        if stats.service not in services:
            sinks[stats.service].update(
                at.topic for at in stats.partitions if at.topic in published
            )
    for sink, topics in sorted(sinks.items()):
        if topics:
            reads = [f"topic:{topic}" for topic in published if topic in topics]
            yield _Node(f"sink:{sink}", "sink", sink, "writes results", sink, inputs=reads)


def _results(operator: OperatorPlan) -> tuple[str, ...]:
    return tuple(each.topic for each in operator.published if each.port.kind != LATE)


def _place(nodes: Mapping[str, _Node]) -> None:
    """Put each node one column after its last input; ends of the dataflow share two columns."""
    moved = True
    while moved:
        moved = False
        for node in nodes.values():
            column = max((nodes[each].column + 1 for each in node.inputs), default=0)
            if column > node.column:
                node.column, moved = column, True
    last = max((node.column for node in nodes.values() if node.kind == "topic"), default=0)
    for node in nodes.values():
        if node.kind == "topic":
            node.column = last
        elif node.kind == "sink":
            node.column = last + 1


def _in_rows(nodes: Mapping[str, _Node]) -> list[_Node]:
    """Return the nodes of each column in the order of the middle of their inputs."""
    position: dict[str, float] = {}
    ordered: list[_Node] = []
    columns: dict[int, list[_Node]] = defaultdict(list)
    for node in nodes.values():
        columns[node.column].append(node)

    def middle(node: _Node) -> float:
        found = [position[each] for each in node.inputs if each in position]
        return sum(found) / len(found) if found else 0.0

    for _, members in sorted(columns.items()):
        # Dead letters stay below the results.
        members.sort(key=lambda node: (node.id == DEAD, middle(node)))
        position.update({node.id: row / len(members) for row, node in enumerate(members)})
        ordered += members
    return ordered


def _rate(plan: Plan, source: _Node, node: _Node, rates: Totals) -> float | None:
    if node.kind in ("ingest", "sink"):
        return rates.get((node.service, f"read:{source.topic}"))
    if node.kind == "operator":
        return rates.get((node.service, f"rows:{node.title}"))
    if source.kind == "operator":
        return rates.get((source.service, f"panes:{source.title}"))
    if node.id == DEAD:
        return rates.get((INGEST, "dead_letters"))
    of_ingest = [each for each in plan.logs if not _is_handed_on(plan, each.topics)]
    return rates.get((INGEST, "rows_out")) if len(of_ingest) == 1 else None


def _is_handed_on(plan: Plan, topics: frozenset[str]) -> bool:
    return topics <= {operator_source(each.name) for each in plan.operators}


def _health(plan: Plan, status: Json, latest: Sequence[Stats]) -> dict[str, tuple[str, str]]:
    """Return health and reason of the nodes that are not as they should be."""
    found: dict[str, tuple[str, str]] = {}
    for holder in status["holders"]:
        if is_operator_source(holder["source"]):
            continue
        text = f"{holder['source']}: {holder['text']}"
        found.setdefault(_source_node(plan, holder["source"]), (WAITS, text))
        for name in holder["operators"]:
            found.setdefault(f"operator:{name}", (WAITS, f"waits for {holder['source']}"))
    for alert in status["alerts"]:
        found[alert_node(plan, alert)] = WARN, f"{alert['kind']}: {alert['text']}"
        if alert["kind"] == DEAD_LETTERS:
            found[DEAD] = WARN, alert["text"]
    ready: dict[str, list[Json]] = defaultdict(list)
    for process in status["processes"]:
        ready[process["process"].rpartition("/")[0]].append(process)
    services = {*plan.services(), *(each.service for each in latest)}
    for service in services:
        down = [each for each in ready[service] if not each["ready"]]
        if ready[service] and not down:
            continue
        why = (
            f"{down[0]['process']}: {'; '.join(down[0]['reasons']) or 'not ready'}"
            if down
            else f"no process of {service} writes stats"
        )
        operators = [f"operator:{each.name}" for each in plan.of_service(service)]
        for node in operators or [INGEST if service == INGEST else f"sink:{service}"]:
            found[node] = BAD, why
    return found
