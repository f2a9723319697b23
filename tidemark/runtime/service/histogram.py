"""Histograms of durations with fixed buckets, and percentiles by interpolation.

All histograms of all processes have the same buckets, so a reader may add them, and subtract
earlier ones (docs/operations.md, "Histograms").
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

BOUNDS_MS = (
    *(5, 10, 20, 50, 100, 200, 500),
    *(1_000, 2_000, 5_000, 10_000, 30_000),
    *(60_000, 300_000, 1_800_000, 3_600_000, 21_600_000, 86_400_000),
)
"""The upper bound of each bucket, part of it; one more bucket has all that is longer."""

RECENT_MS = 60_000
"""Percentiles are those of the values of this time."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class HistogramStats(msgspec.Struct, frozen=True):
    """A histogram since the start of the process, and its percentiles of the last minute.

    ``counts``: of each bucket of BOUNDS_MS, and above them; empty for a histogram of nothing.
    """

    count: Count = 0
    sum_ms: float = 0.0
    counts: list[Count] = []
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None


class Histogram:
    """Counts durations by bucket."""

    def __init__(self) -> None:
        """Start empty."""
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._sum_ms = 0.0
        self._past: deque[tuple[int, list[int]]] = deque()

    def add(self, duration_ms: float) -> None:
        """Count one duration; a negative one counts as 0."""
        self._counts[bisect_left(BOUNDS_MS, duration_ms)] += 1
        self._sum_ms += max(0.0, duration_ms)

    def add_all(self, durations_ms: npt.NDArray[np.int64]) -> None:
        """Count durations; negative ones count as 0."""
        if not durations_ms.size:
            return
        least, most = (bisect_left(BOUNDS_MS, d) for d in (durations_ms.min(), durations_ms.max()))
        if least == most:  # as a rule: results become due together
            self._counts[least] += durations_ms.size
        else:
            found = bucket_counts(durations_ms)
            self._counts = [a + b for a, b in zip(self._counts, found, strict=True)]
        self._sum_ms += float(np.maximum(durations_ms, 0).sum(dtype=np.float64))

    def stats(self, now_ms: int) -> HistogramStats:
        """Return the counts so far, and the percentiles of those since a minute ago."""
        while len(self._past) > 1 and self._past[1][0] <= now_ms - RECENT_MS:
            self._past.popleft()
        is_old = self._past and self._past[0][0] <= now_ms - RECENT_MS
        before = self._past[0][1] if is_old else [0] * len(self._counts)
        recent = [a - b for a, b in zip(self._counts, before, strict=True)]
        self._past.append((now_ms, list(self._counts)))
        return HistogramStats(
            sum(self._counts),
            self._sum_ms,
            list(self._counts),
            *(percentile_ms(recent, share) for share in (0.5, 0.9, 0.99)),
        )


def bucket_counts(durations_ms: npt.NDArray[np.int64]) -> list[int]:
    """Return the number of durations in each bucket of BOUNDS_MS, and above the last one."""
    buckets = np.searchsorted(BOUNDS_MS, durations_ms, side="left")
    counts: list[int] = np.bincount(buckets, minlength=len(BOUNDS_MS) + 1).tolist()
    return counts


def percentile_ms(counts: Sequence[int], share: float) -> float | None:
    """Return the percentile of durations in buckets; None if there are none.

    ``share``: of the durations that are at most as long, 0 to 1.  Durations are spread evenly in
    their bucket, and those above the last bound count as that bound.
    """
    rank = share * sum(counts)
    if not rank:
        return None
    below = 0
    for index, count in enumerate(counts[: len(BOUNDS_MS)]):
        if count and below + count >= rank:
            begin_ms = BOUNDS_MS[index - 1] if index else 0
            return begin_ms + (BOUNDS_MS[index] - begin_ms) * (rank - below) / count
        below += count
    return float(BOUNDS_MS[-1])
