"""Windows whose panes, but for corrections, are due by the windows' ends.

How sliding and session windows take a batch; aligned windows override parts of it.
See docs/semantics.md, "Batches of segments".
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.operators.operator import WindowBody
from tidemark.core.state.keyed_lines import Mask
from tidemark.core.time.row_watermarks import SEGMENT
from tidemark.core.time.segment import EVENT_TIME, WATERMARK
from tidemark.core.windows.pane import END, FINAL
from tidemark.core.windows.trigger import OnFinal, Trigger


class DueByEnd(WindowBody):
    """Windows that take rows after publication only where corrections are possible."""

    allowed_lateness_ms: int
    trigger: Trigger

    @property
    def can_batch(self) -> bool:
        """Whether many segments can be taken as one: always."""
        return True

    @property
    def wait_ms(self) -> int:
        """How long after a window's end its pane waits for late rows."""
        return self.allowed_lateness_ms if isinstance(self.trigger, OnFinal) else 0

    def corrects(self, rows: pl.DataFrame) -> Mask:
        """Return which rows W has overtaken, if published windows may take them."""
        if self.allowed_lateness_ms == self.wait_ms:
            return np.zeros(rows.height, np.bool_)
        behind: Mask = rows[WATERMARK].to_numpy() > rows[EVENT_TIME].to_numpy()
        return behind

    def publish_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> pl.DataFrame:
        """Return the windows that the clock reached, and in SEGMENT after which segment.

        ``clock_ms``: the clock after each segment; no row of the batch ``corrects``.
        """
        panes = self.publish(state, before_ms, clock_ms[-1])
        end_ms, clocks_ms = panes[END].to_numpy(), np.array(clock_ms)
        segment = np.searchsorted(clocks_ms, end_ms + self.wait_ms)
        final = end_ms + self.allowed_lateness_ms <= clocks_ms[segment]
        return panes.with_columns(pl.Series(FINAL, final), pl.Series(SEGMENT, segment))
