"""What the dashboard adds to the status: the graph, rates, and for each alert what to do.  Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tidemark.monitor.alerts import process_of, todo
from tidemark.monitor.graph import INGEST, alert_node, graph, kinds_of_topics
from tidemark.monitor.holders import Json
from tidemark.monitor.late import late_rows
from tidemark.monitor.presence import is_silent
from tidemark.monitor.rates import Rates
from tidemark.plan.physical import Plan
from tidemark.runtime.service.histogram import HistogramStats
from tidemark.runtime.service.stats import Stats

SINK = "sink"

RatesOf = Callable[[str], Rates]
"""Returns the rates of a process by its name."""


def dashboard(plan: Plan, status: Json, latest: Sequence[Stats], rates: RatesOf) -> Json:
    """Return the status with graph, rates and remedies; ``latest``: the present processes."""
    known = {process_of(stats): rates(process_of(stats)) for stats in latest}
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for stats in latest:
        if is_silent(stats, status["at_ms"]):
            continue
        for name, rate in known[process_of(stats)].items():
            kind, _, subject = name.partition(":")
            counted = f"read:{subject.rpartition('/')[0]}" if kind == "read" else name
            totals[stats.service, counted] += rate
    return {
        **status,
        "alerts": [
            {
                **alert,
                "todo": todo(alert, plan),
                "node": alert_node(plan, alert),
            }
            for alert in status["alerts"]
        ],
        "processes": [
            {**each, "rates": _shown(known[each["process"]])} for each in status["processes"]
        ],
        "restores": [each for process in status["processes"] for each in _restores(plan, process)],
        "late": late_rows(latest),
        "operators": [each for stats in latest for each in _operators(stats)],
        "graph": graph(plan, status, latest, totals),
        "topics": [{"topic": topic, "kind": kind} for topic, kind in kinds_of_topics(plan).items()],
    }


def _restores(plan: Plan, process: Json) -> Iterator[Json]:
    """Yield what a process reads back: changelogs by operator, and logs that a replay reads."""
    operators = {each.changelog: each.name for each in plan.operators}
    for each in process["restores"]:
        about = operators.get(each["topic"], each["topic"])
        yield {"process": process["process"], "kind": "restore", "operator": about, **each}
    readers: dict[str, list[str]] = defaultdict(list)
    for operator in plan.operators:
        readers[operator.log].append(operator.name)
    for each in process["replays"]:
        about = ", ".join(readers.get(each["topic"], [each["topic"]]))
        yield {"process": process["process"], "kind": "replay", "operator": about, **each}


def _shown(rates: Rates) -> Rates:
    return {name: rates[name] for name in ("rows_in", "rows_out", "late") if name in rates}


def _operators(stats: Stats) -> Iterator[Json]:
    """Yield for each operator of a process how late its results and its late rows are, and why."""
    latencies = {each.of: each.histogram for each in stats.latencies}
    for each in stats.operators:
        latency = latencies.get(each.operator, HistogramStats())
        yield {
            "operator": each.operator,
            "process": process_of(stats),
            "latency": {"p50_ms": latency.p50_ms, "p99_ms": latency.p99_ms},
            "late_by": {"p50_ms": each.late_by.p50_ms, "p99_ms": each.late_by.p99_ms},
            "late_reasons": msgspec.to_builtins(each.late_reasons),
        }


def sample(plan: Plan, latest: Sequence[Stats], rates: RatesOf, now_ms: int) -> dict[str, float]:
    """Return the values of all series of the history at a time; what is not known is left out.

    The series: ``rate:taken``, ``rate:published``, ``rate:late`` and ``rate:dead`` of the whole
    pipeline a second; ``lag:SERVICE`` in records; ``latency:OPERATOR`` and ``latency:sink``, the
    99th percentile of the last minute, ms; ``behind:OPERATOR``, how far its lowest clock is behind
    the time, ms.  All belong to the plan, so their number is bounded.
    """
    awake = [stats for stats in latest if not is_silent(stats, now_ms)]
    return {
        **_of_services(plan, awake, rates),
        **_latencies(plan, awake),
        **_behind(plan, latest, now_ms),
    }


def _of_services(plan: Plan, awake: Sequence[Stats], rates: RatesOf) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    services, keyed = {*plan.services(), SINK}, set(plan.keyed_services())
    for stats in awake:
        if stats.service not in services:
            continue
        if stats.lag is not None:
            found[f"lag:{stats.service}"] += stats.lag
        its = rates(process_of(stats))
        if its:
            found["rate:dead"] += its["dead_letters"]
        if its and stats.service == INGEST:
            found["rate:taken"] += its["rows_in"]
        elif its and stats.service in keyed:
            found["rate:published"] += its["rows_out"]
            found["rate:late"] += its["late"]
    return found


def _latencies(plan: Plan, awake: Sequence[Stats]) -> dict[str, float]:
    found: dict[str, float] = {}
    operators = {each.name for each in plan.operators}
    for stats in awake:
        for each in stats.latencies:
            of = SINK if stats.service == SINK else each.of
            p99_ms = each.histogram.p99_ms
            if p99_ms is not None and of in {SINK, *operators}:
                found[f"latency:{of}"] = max(found.get(f"latency:{of}", 0.0), p99_ms)
    return found


def _behind(plan: Plan, latest: Sequence[Stats], now_ms: int) -> dict[str, float]:
    """Return how far the lowest clock of each operator is behind; a silent process counts."""
    lowest: dict[str, int] = {}
    for operator in (each for stats in latest for each in stats.operators):
        for clock in operator.clocks:
            if clock.clock_ms is not None:
                before = lowest.get(operator.operator, clock.clock_ms)
                lowest[operator.operator] = min(before, clock.clock_ms)
    return {
        f"behind:{each.name}": now_ms - lowest[each.name]
        for each in plan.operators
        if each.name in lowest
    }
