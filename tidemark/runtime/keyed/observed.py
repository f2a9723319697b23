"""What a keyed service observes for its stats: counts of operators, and when clocks last moved.

See docs/operations.md, "Stats".
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
import polars as pl

from tidemark.core.operators.operator import State
from tidemark.core.operators.output import Tally
from tidemark.core.operators.ports import BY_TIME, DEAD, FAILED, LATE, LATE_BY, REASON
from tidemark.core.time.segment import NEVER_MS
from tidemark.core.windows.open_bounds import WindowAges, ages_of
from tidemark.plan.physical import PortPlan
from tidemark.runtime.keyed.oversized import STAGE
from tidemark.runtime.service.histogram import BOUNDS_MS, Histogram
from tidemark.runtime.service.reasons import Reasons

_MOST_AGES_S = 10
"""The time between two counts of the ages of a million windows, seconds."""


@dataclass
class KeyedTally(Tally):
    """Counts of an operator in this process.

    Attributes:
        oversized: results that fit no message.
        incomplete: results of windows that may lack rows.
        dead_reasons: of rows and results that became dead letters.
        late_reasons: of late rows.
        late_by: by how much rows are late that are late by their time.
        latency: from the event time of results to their commit.
    """

    oversized: int = 0
    incomplete: int = 0
    dead_reasons: Reasons = field(default_factory=Reasons)
    late_reasons: Reasons = field(default_factory=Reasons)
    late_by: Histogram = field(default_factory=Histogram)
    latency: Histogram = field(default_factory=Histogram)
    _unseen: list[pl.Series] = field(default_factory=list)  # event times of uncommitted results

    def published(self, port: PortPlan, rows: pl.DataFrame) -> None:
        """Count why rows of a port are late or dead; keep the event times of results."""
        kind = port.port.kind
        if kind == LATE:
            self._late(rows)
        elif kind in (DEAD, FAILED):
            self.dead_reasons.add(zip(repeat(port.port.stage), rows[REASON]))
        else:
            time = port.port.row_time
            self._unseen.append(rows[time.column].drop_nulls() + time.shift_ms)

    def _late(self, rows: pl.DataFrame) -> None:
        by_ms = rows[LATE_BY]
        if REASON in rows.columns:
            reasons = rows[REASON].fill_null(BY_TIME)
            self.late_reasons.add(zip(repeat(""), reasons))
            # No lateness saves a row that is refused for another reason; its number may be below 0.
            by_ms = by_ms.filter(reasons == BY_TIME)
        else:
            self.late_reasons.add(repeat(("", BY_TIME), rows.height))
        self.late_by.add_all(by_ms.drop_nulls().to_numpy())

    def add_oversized(self, reasons: Sequence[str]) -> None:
        """Count results that fit no message."""
        self.oversized += len(reasons)
        self.dead_reasons.add(zip(repeat(STAGE), reasons))

    def add_refused(self, stage: str, reasons: Sequence[str]) -> None:
        """Count results that operators after this one refuse."""
        self.failed += len(reasons)
        self.dead_reasons.add(zip(repeat(stage), reasons))

    def committed(self, now_ms: int) -> None:
        """Count the ages of the results that a commit has shown; ``now_ms``: the wall clock."""
        shown, self._unseen = self._unseen, []
        for times_ms in shown:
            self.latency.add_all(now_ms - times_ms.to_numpy().astype(np.int64))


class RecentAges:
    """The ages of an operator's open windows; the more windows, the less often they are counted."""

    def __init__(self) -> None:
        """Start without ages."""
        self._ages = WindowAges()
        self._counted_ms = NEVER_MS

    def of(self, state: State, open_windows: int, clock_ms: int, now_ms: int) -> WindowAges:
        """Return the ages of the windows of a state; ``now_ms``: the wall clock.

        A million windows take about 20 ms (bench/open_ages.py): they are counted once in
        ten seconds.
        """
        # Windows may all close at once: then the next record counts again.
        pause_ms = open_windows * _MOST_AGES_S // 1_000_000 * 1_000
        if now_ms - self._counted_ms >= pause_ms:
            self._ages = ages_of(state.open_bounds(), clock_ms, BOUNDS_MS)
            self._counted_ms = now_ms
        return self._ages


class LastMoved:
    """The last reading of each clock, and the wall time at which the reading was new."""

    def __init__(self) -> None:
        self._readings: dict[Hashable, tuple[int, int]] = {}

    def since_ms(self, clock: Hashable, reading_ms: int, now_ms: int) -> int:
        """Take a reading of a clock; return the wall time, ms, since which readings are equal."""
        last_ms, since_ms = self._readings.get(clock, (None, now_ms))
        if last_ms != reading_ms:
            since_ms = now_ms
        self._readings[clock] = reading_ms, since_ms
        return since_ms
