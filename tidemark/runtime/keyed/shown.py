"""What a keyed service shows of its operators: figures of its log, stats, and those that stopped.

See docs/operations.md, "Stats" and "Operators that stop".
"""

from collections.abc import Iterable, Mapping, Sequence

from tidemark.core.time.segment import NEVER_MS
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.client.silence import EndOffsets
from tidemark.runtime.keyed.log_partition import KeyedOperators, LogPartition
from tidemark.runtime.keyed.observed import KeyedTally, LastMoved
from tidemark.runtime.keyed.restore_progress import ChangelogProgress
from tidemark.runtime.service.stats import (
    Account,
    LatencyStats,
    OperatorStats,
    RestoreStats,
    clock_sources,
    instant_text,
)


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


def _operator_stats(
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
        tally.late_reasons.stats(),
        tally.late_by.stats(now_ms),
    )


def account_of(
    operators: KeyedOperators,
    ready: Sequence[LogPartition],
    restoring: Iterable[ChangelogProgress],
    ends: EndOffsets,
    behind: Mapping[Partition, int],
    last_moved: LastMoved,
    now_ms: int,
) -> Account:
    """Return counts since the start, clocks and state of each operator, and restores.

    ``ready``: log partitions whose state is restored, in order.  ``restoring``: changelogs of the
    others.  ``behind``: see ``Account``.
    """
    tallies = operators.tallies
    return Account(
        rows_in=sum(tally.rows for tally in tallies.values()),
        rows_out=sum(tally.results for tally in tallies.values()),
        ends=ends.known,
        stable_ends=ends.stable,
        behind=behind,
        late=sum(tally.late for tally in tallies.values()),
        dead_letters=sum(t.dead + t.failed + t.oversized for t in tallies.values()),
        operators=[
            _operator_stats(plan, tallies[plan.name], ready, last_moved, now_ms)
            for plan in operators.plans
        ],
        restores=[
            RestoreStats(each.at.topic, each.at.number, each.done, each.total, each.eta_s)
            for each in restoring
        ],
        latencies=[
            LatencyStats(name, tally.latency.stats(now_ms)) for name, tally in tallies.items()
        ],
        dead_reasons=[each for tally in tallies.values() for each in tally.dead_reasons.stats()],
    )
