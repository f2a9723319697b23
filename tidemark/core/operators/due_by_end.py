"""Windows whose panes, but for corrections, are due by the windows' ends.

What ``operator.Patient`` asks of sliding and session windows; aligned ones know better in part.
See docs/semantics.md, "Batches of segments".
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl

from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.segment import EVENT_TIME, WATERMARK
from tidemark.core.windows.pane import END, FINAL
from tidemark.core.windows.trigger import OnFinal, Trigger


class DueByEnd(ABC):
    """A body whose published windows take rows only where corrections are possible."""

    allowed_lateness_ms: int
    trigger: Trigger

    together: ClassVar[bool] = True
    most_pressing: ClassVar[int] = 0

    @abstractmethod
    def publish(self, state: Any, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return corrections of published windows, then the windows that the clock reached."""

    @property
    def wait_ms(self) -> int:
        """How long after a window's end its pane waits for late rows."""
        return self.allowed_lateness_ms if isinstance(self.trigger, OnFinal) else 0

    def pressing(self, rows: pl.DataFrame) -> Mask:
        """Return which rows W has overtaken, if what was published may take them."""
        if self.allowed_lateness_ms == self.wait_ms:
            return np.zeros(rows.height, np.bool_)
        behind: Mask = rows[WATERMARK].to_numpy() > rows[EVENT_TIME].to_numpy()
        return behind

    def publish_each(
        self, state: Any, before_ms: int, clock_ms: Sequence[int]
    ) -> tuple[pl.DataFrame, Numbers]:
        """Return the windows that the clock reached, and the segment after which it had.

        ``clock_ms``: the clock after each segment; no row of them was pressing.
        """
        panes = self.publish(state, before_ms, clock_ms[-1])
        end_ms, clocks_ms = panes[END].to_numpy(), np.array(clock_ms)
        segment = np.searchsorted(clocks_ms, end_ms + self.wait_ms)
        final = end_ms + self.allowed_lateness_ms <= clocks_ms[segment]
        return panes.with_columns(pl.Series(FINAL, final)), segment
