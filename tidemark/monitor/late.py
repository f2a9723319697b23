"""How late rows are, by operator, from stats: what ``why late`` counts in topics.  Pure."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from tidemark.core.operators.ports import BY_TIME
from tidemark.monitor.holders import Json
from tidemark.runtime.service.histogram import BOUNDS_MS
from tidemark.runtime.service.stats import OperatorStats, Stats
from tidemark.why.late_rows import bounded_cures, buckets_of, shown_buckets


def late_rows(latest: Iterable[Stats]) -> list[Json]:
    """Return the histogram of each operator with late rows, and what would have saved them.

    Counts are since the start of the processes that run.
    """
    found: dict[str, list[OperatorStats]] = {}
    for stats in latest:
        for each in stats.operators:
            found.setdefault(each.operator, []).append(each)
    shown = (_late_rows(operator, its) for operator, its in sorted(found.items()))
    return [each for each in shown if each["rows"]]


def _late_rows(operator: str, its: list[OperatorStats]) -> Json:
    size = len(BOUNDS_MS) + 1
    counts = np.zeros(size, np.int64)
    reasons: Counter[str] = Counter()
    for each in its:
        if len(each.late_by.counts) == size:
            counts += each.late_by.counts
        reasons.update(
            {why.reason: why.count for why in each.late_reasons if why.reason != BY_TIME}
        )
    return {
        "operator": operator,
        "rows": sum(each.late for each in its),
        "buckets": shown_buckets(buckets_of(counts.tolist())),
        "saves_ms": {str(share): more for share, more in bounded_cures(counts.tolist()).items()},
        "reasons": dict(reasons.most_common()),
    }
