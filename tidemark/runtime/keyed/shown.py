"""What a keyed service shows of its operators: figures of its log, stats, and those that stopped.

See docs/operations.md, "Stats" and "Operators that stop".
"""

from collections.abc import Iterable, Mapping

from tidemark.core.time.segment import NEVER_MS
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.keyed.keyed_operator import KeyedTally
from tidemark.runtime.keyed.last_moved import LastMoved
from tidemark.runtime.keyed.log_partition import LogPartition
from tidemark.runtime.service.stats import OperatorStats, clock_sources, instant_text


def trouble_lines(logs: Iterable[LogPartition]) -> list[str]:
    """Return a line for each operator that has stopped: why, and the remedy."""
    found: dict[str, list[str]] = {}
    for log in logs:
        for each in log.troubles:
            found.setdefault(each.plan.name, []).append(str(each.trouble))
    return [
        f"operator {name} has stopped on {len(texts)} log partitions: {texts[0]}"
        if len(texts) > 1
        else f"operator {name} has stopped: {texts[0]}"
        for name, texts in found.items()
    ]


def operator_figures(
    tallies: Mapping[str, KeyedTally], logs: Iterable[LogPartition]
) -> dict[str, object]:
    """Return counts since the start, and the lowest clock, of each operator."""
    shown: dict[str, object] = {}
    operators = [each for log in logs for each in log.operators]
    for name, tally in tallies.items():
        prefix = f"{name}." if len(tallies) > 1 else ""
        shown[f"{prefix}rows"] = tally.rows
        shown[f"{prefix}accepted"] = tally.accepted
        shown[f"{prefix}late"] = tally.late
        if tally.dead or tally.failed:
            shown[f"{prefix}dead"] = tally.dead
            shown[f"{prefix}failed"] = tally.failed
        shown[f"{prefix}panes"] = tally.results
        if tally.duplicates:
            shown[f"{prefix}duplicates"] = tally.duplicates
        if tally.incomplete:
            shown[f"{prefix}incomplete"] = tally.incomplete
        clocks = [each.task.clock_ms for each in operators if each.plan.name == name]
        shown[f"{prefix}clock"] = instant_text(min(clocks, default=NEVER_MS))
    return shown


def operator_stats(
    plan: OperatorPlan,
    tally: KeyedTally,
    logs: Iterable[LogPartition],
    last_moved: LastMoved,
    now_ms: int,
) -> OperatorStats:
    """Return the stats of an operator; ``logs``: log partitions whose state is restored."""
    found = [each for log in logs for each in log.operators if each.plan is plan]
    clocks = [each.task.clocks for each in found]
    lowest = min(clocks, key=lambda clock: clock.clock_ms, default=None)
    return OperatorStats(
        plan.name,
        plan.log,
        tally.rows,
        tally.late,
        tally.results,
        [each.clock_stats(last_moved, now_ms) for each in found],
        [] if lowest is None else clock_sources(lowest),
        tally.duplicates,
    )
