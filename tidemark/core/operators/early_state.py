"""Keyed state of windows with early panes: that of the windows, and a tally for each window.

See docs/semantics.md, "Early panes"; tallies.py explains tallies.
"""

from dataclasses import dataclass, field

import polars as pl

from tidemark.core.operators.tallies import TalliedState
from tidemark.core.time.segment import NEVER_MS


@dataclass
class EarlyState(TalliedState):
    """State of windows, tallies, and the panes that this segment's rows fired."""

    fired: list[pl.DataFrame] = field(default_factory=list)
    now_ms: int = NEVER_MS  # processing time of the segment
    _looked_ms: int | None = None

    def turns(self, interval_ms: int, now_ms: int) -> bool:
        """Take the processing time of a segment; return whether its interval is a new one."""
        looked_ms, self.now_ms, self._looked_ms = self._looked_ms, now_ms, now_ms
        return looked_ms is None or looked_ms // interval_ms != now_ms // interval_ms

    def take_fired(self) -> list[pl.DataFrame]:
        """Return the panes that fired, once."""
        fired, self.fired = self.fired, []
        return fired

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self.fired, "panes that fired were not published"
        super().validate()
