"""How late the recorded late rows are, and what would have saved them.  Pure.

A row is late by ``late_by_ms`` when its own watermark had passed the end of its window and the
allowed lateness by this time.  So it counts if the allowed lateness, or the bound of the watermark,
is larger by one ms more (docs/semantics.md, "Lateness").
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil
from typing import Any

import numpy as np

from tidemark.core.operators.ports import BY_TIME
from tidemark.runtime.service.histogram import BOUNDS_MS, bucket_counts

SHARES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Bucket:
    """Late rows that are late by at most ``bound_ms``, None without a bound.

    ``rows``: those above the bound before.  ``saved``: those up to this bound, which a lateness
    that is larger by ``bound_ms`` and 1 ms would save.
    """

    bound_ms: int | None
    rows: int
    saved: int


@dataclass
class LateRowCounts:
    """The late rows of one operator.

    ``reasons``: rows that are late for another reason than their time.  ``sources``: rows by raw
    partition.
    """

    late_by_ms: list[int] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """The number of late rows."""
        return len(self.late_by_ms) + self.reasons.total()

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Count published late rows."""
        for row in rows:
            self.sources[f"{row['topic']}/{row['partition']}"] += 1
            if row["reason"] == BY_TIME and row["late_by_ms"] is not None:
                self.late_by_ms.append(row["late_by_ms"])
            else:
                self.reasons[row["reason"]] += 1

    def buckets(self) -> list[Bucket]:
        """Return the histogram, without empty buckets."""
        return buckets_of(bucket_counts(np.array(self.late_by_ms, np.int64)))

    def cures(self) -> dict[float, int]:
        """Return for each share of the rows the least additional lateness, ms, that saves it."""
        ordered = sorted(self.late_by_ms)
        return {share: ordered[ceil(share * len(ordered)) - 1] + 1 for share in SHARES if ordered}


def buckets_of(counts: Sequence[int]) -> list[Bucket]:
    """Return the buckets of counts by ``BOUNDS_MS`` and above, without empty ones."""
    cells = zip([*BOUNDS_MS, None], counts, accumulate(counts), strict=True)
    return [Bucket(bound, rows, saved) for bound, rows, saved in cells if rows]


def shown_buckets(buckets: Iterable[Bucket]) -> list[dict[str, int | None]]:
    """Return buckets as JSON values."""
    return [
        {"late_by_ms": each.bound_ms, "rows": each.rows, "saved": each.saved} for each in buckets
    ]


def bounded_cures(counts: Sequence[int]) -> dict[float, int | None]:
    """Return for each share of the rows an additional lateness, ms, that surely saves it.

    ``counts``: their histogram.  The lateness is the bound of a bucket and 1 ms; None if some rows
    of the share are later than all bounds.
    """
    saved = list(accumulate(counts))
    found: dict[float, int | None] = {}
    for share in SHARES if saved and saved[-1] else ():
        bucket = bisect_left(saved, ceil(share * saved[-1]))
        found[share] = BOUNDS_MS[bucket] + 1 if bucket < len(BOUNDS_MS) else None
    return found
