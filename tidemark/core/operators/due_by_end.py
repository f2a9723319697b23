"""The base of windows whose panes, except corrections, are due by the windows' ends.

It implements batches for sliding and session windows.  Aligned windows override parts of it.
See docs/semantics.md, "Batches of segments".
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.operator import WindowBody
from tidemark.core.operators.ports import Port, late_port, pane_port
from tidemark.core.state.keyed_lines import Mask
from tidemark.core.time.row_watermarks import SEGMENT
from tidemark.core.time.segment import EVENT_TIME, WATERMARK
from tidemark.core.windows.pane import EARLY, END, FINAL, TIMING
from tidemark.core.windows.trigger import OnFinal, Trigger, late_rows_of


class DueByEnd(WindowBody):
    """Windows that accept rows after publication only where corrections are possible."""

    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    aggregation: Aggregation
    allowed_lateness_ms: int
    trigger: Trigger
    discarding: bool

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of panes and late rows."""
        panes = pane_port(
            self.key,
            self.columns,
            self.aggregation.types,
            discarding=self.discarding,
            holds_ms=self.holds_ms,
        )
        return panes, late_port(self.key, self.columns)

    @property
    def holds_ms(self) -> int | None:
        """See ``Port.holds_ms``: a correction is of a window that ended within the lateness."""
        return self.allowed_lateness_ms

    @property
    def can_batch(self) -> bool:
        """Whether segments can be batched: not if corrections wait for rows."""
        return late_rows_of(self.trigger) == 1

    @property
    def wait_ms(self) -> int:
        """The time from a window's end until its pane is due, ms; 0 except with ``on_final``."""
        return self.allowed_lateness_ms if isinstance(self.trigger, OnFinal) else 0

    def corrects(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows with W past their event time, if published windows may accept rows."""
        if self.allowed_lateness_ms == self.wait_ms:
            return np.zeros(rows.height, np.bool_)
        behind: Mask = rows[WATERMARK].to_numpy() > rows[EVENT_TIME].to_numpy()
        return behind

    def stops(self, _state: Any, _before_ms: int, clock_ms: int) -> list[int]:
        """Return the times at which the clock may stop on its way, so that few panes are due."""
        return [clock_ms]

    def with_final(self, panes: pl.DataFrame, stop_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the panes of a stop as final as the clock after the segment makes them."""
        if stop_ms == clock_ms:
            return panes
        final = pl.col(END) <= clock_ms - self.allowed_lateness_ms
        return panes.with_columns(pl.col(FINAL) | (final & (pl.col(TIMING) != EARLY)))

    def publish_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> pl.DataFrame:
        """Return the due panes, with the segment after which each was due in SEGMENT, Int64.

        ``clock_ms``: the clock after each segment.  No row of the batch is a correction.
        """
        panes = self.publish(state, before_ms, clock_ms[-1])
        end_ms, clocks_ms = panes[END].to_numpy(), np.array(clock_ms)
        segment = np.searchsorted(clocks_ms, end_ms + self.wait_ms)
        final = end_ms + self.allowed_lateness_ms <= clocks_ms[segment]
        return panes.with_columns(pl.Series(FINAL, final), pl.Series(SEGMENT, segment))
