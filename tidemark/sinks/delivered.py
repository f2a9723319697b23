"""What a sink has taken: rows, bytes, and how old results were when it had them."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.runtime.service.histogram import Histogram
from tidemark.runtime.service.stats import LatencyStats
from tidemark.sinks.sink import Batch


class Delivered:
    """Counts of delivered batches since the start."""

    def __init__(self) -> None:
        """Start with nothing delivered."""
        self.rows = self.size_bytes = 0
        self._latencies: defaultdict[str, Histogram] = defaultdict(Histogram)

    def add(self, batches: Iterable[Batch], now_ms: int) -> None:
        """Count batches that the sink has taken; ``now_ms``: the wall clock."""
        for batch in batches:
            self.rows += len(batch.offsets)
            self.size_bytes += sum(map(len, batch.values))
            times_ms = _times_ms(batch)
            if times_ms is not None:
                self._latencies[batch.table.name].add_all(now_ms - times_ms)

    def latencies(self, now_ms: int) -> list[LatencyStats]:
        """Return the time from the event time of results to their delivery, by table."""
        return [LatencyStats(name, each.stats(now_ms)) for name, each in self._latencies.items()]


def _times_ms(batch: Batch) -> npt.NDArray[np.int64] | None:
    """Return the event times of results; None if the table does not have them."""
    table, time = batch.table, batch.table.row_time
    if time is None:
        return None
    column = next((name for name in table.columns if table.member(name) == time.column), None)
    if column is None:
        return None
    times = batch.rows[column].drop_nulls()
    if isinstance(times.dtype, pl.Datetime):
        times = times.dt.epoch("ms")
    return times.to_numpy() + time.shift_ms
