"""Keyed state of windows with early panes: that of the windows, and a tally for each window.

See docs/semantics.md, "Early panes"; tallies.py explains tallies.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import polars as pl

from tidemark.core.operators.operator import Changes
from tidemark.core.operators.tallies import Tallies
from tidemark.core.time.segment import NEVER_MS


@dataclass
class EarlyState:
    """State of windows, tallies, and the panes that this segment's rows fired."""

    windows: Any
    tallies: Tallies
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

    def changes(self) -> Changes:
        """Return the changes since the last call."""
        return {**self.windows.changes(), **self.tallies.changes()}

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state in pieces."""
        return chain(self.windows.snapshot(), self.tallies.snapshot())

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        held: int = self.windows.size_bytes() + self.tallies.size_bytes()
        return held

    def open_windows(self) -> int:
        """Return the number of open windows."""
        held: int = self.windows.open_windows()
        return held

    def apply(self, changes: Changes) -> None:
        """Apply changes to the windows and the tallies."""
        self.windows.apply(changes)
        self.tallies.apply(changes)

    def purge(self, clock_ms: int) -> None:
        """Drop the windows that no row can reach."""
        self.windows.purge(clock_ms)
        self.tallies.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self.fired, "panes that fired were not published"
        self.windows.validate()
        self.tallies.validate()
