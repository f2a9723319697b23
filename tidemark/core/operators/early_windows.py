"""What early.py asks of windows: their counts, their partials so far, and their due panes."""

from typing import Any, Protocol

import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.ports import Port
from tidemark.core.state.block_store import BlockStore
from tidemark.core.windows.trigger import Trigger


class EarlyWindows(Protocol):
    """Windows that can have early panes.  Until they are published, panes are partials.

    Partials are frames with END, the key, ROWS and the columns of the aggregates.
    """

    @property
    def aggregation(self) -> Aggregation:
        """The aggregates of panes."""

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns."""

    @property
    def allowed_lateness_ms(self) -> int:
        """The time after its end in which a window accepts rows, ms."""

    @property
    def trigger(self) -> Trigger:
        """When panes are published."""

    @property
    def discarding(self) -> bool:
        """Whether panes hold only rows that no earlier pane has shown."""

    @property
    def grid_ms(self) -> int:
        """The interval of window ends, ms, whose tallies lie together."""

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of panes and late rows."""

    def open(self, store: BlockStore, /) -> Any:
        """Return empty state."""

    def fold(self, rows: pl.DataFrame, state: Any) -> pl.DataFrame:
        """Add rows; return the late rows."""

    def counts(self, rows: pl.DataFrame, state: Any, wait_ms: int, /) -> pl.DataFrame | None:
        """Return the counts of rows before ``fold``: a line for each row and window.

        The frame has END, ROW and EVENT_TIME (Int64), the key columns, and BEHIND, COUNTS and THERE
        (Boolean), as firing.py explains.  It holds the windows that a row counts in or makes, with
        W < end + wait_ms.  Returns None if there is no such window.
        """

    def before(self, state: Any, windows: pl.DataFrame, wait_ms: int, /) -> pl.DataFrame | None:
        """Return the tallies of windows that have rows, but no tally yet.

        ``windows``: END and the key.  The result also has TOTAL and HIGHEST (Int64) and partials,
        or is None if no window has rows.
        """

    def counted(self, state: Any, windows: pl.DataFrame, *, behind: bool) -> list[pl.DataFrame]:
        """Return the partials of windows so far, with END, key, REVISION and TIMING.

        ``windows``: END and the key.  ``behind``: whether rows behind count.
        """

    def due(self, state: Any, before_ms: int, clock_ms: int) -> list[pl.DataFrame]:
        """Return the partials of due panes and corrections, with END, key, REVISION and TIMING."""

    def panes(self, parts: list[pl.DataFrame], clock_ms: int) -> pl.DataFrame:
        """Return partials as panes, in the order of a topic (columns: ``pane_schema``)."""

    def stops(self, state: Any, before_ms: int, clock_ms: int, /) -> list[int]:
        """Return the times at which the clock may stop on its way, ``clock_ms`` last."""

    def with_final(self, panes: pl.DataFrame, stop_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the panes of a stop as final as the clock after the segment makes them."""
