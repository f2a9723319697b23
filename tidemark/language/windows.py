"""Windows as users write them: ``tumbling("1m")``, ``calendar("day", "Europe/Berlin")``."""

from dataclasses import dataclass

import polars as pl

from tidemark.core.rows.expression import as_written, expression_text
from tidemark.core.time.duration import (
    Duration,
    duration_ms,
    duration_text,
    is_duration,
    positive_ms,
)
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.window import Hopping, Session, Sliding
from tidemark.errors import PipelineError


def tumbling(size: Duration, offset: Duration = 0) -> Hopping:
    """Cut time into windows of ``size`` that touch; starts are aligned to 1970 + ``offset``."""
    size_ms = positive_ms(size, "tumbling(size)")
    return _hopping(size_ms, size_ms, offset, f"tumbling({size!r})")


def hopping(size: Duration, slide: Duration, offset: Duration = 0) -> Hopping:
    """Start a window of ``size`` every ``slide``: an event is in ``size / slide`` windows."""
    size_ms = positive_ms(size, "hopping(size)")
    slide_ms = positive_ms(slide, "hopping(slide)")
    if slide_ms > size_ms:
        raise PipelineError(
            f"hopping(slide): {slide!r} is longer than the size {size!r}; events between two "
            "windows would be in no window"
        )
    return _hopping(size_ms, slide_ms, offset, f"hopping({size!r}, {slide!r})")


def sliding(size: Duration) -> Sliding:
    """Make a window that ends with every row of a key, and a window that begins just after it.

    Both ends are included: the window that ends with a row at t is ``[t - size, t]``.
    """
    return Sliding(positive_ms(size, "sliding(size)"))


def calendar(period: str, zone: str, week_start: str = "monday") -> Calendar:
    """Make a window of each ``"day"``, ``"week"`` or ``"month"`` of a time zone.

    A day on which the clocks change has 23 or 25 hours.
    """
    return Calendar(period, zone, week_start)


@dataclass(frozen=True)
class SameWindows:
    """The windows of the results that the rows of a stream are."""

    def __repr__(self) -> str:
        return "same()"


def same() -> SameWindows:
    """Keep the windows of results: all results of one window are in one window again.

    The stream must be results of ``tumbling``, ``hopping`` or ``calendar`` windows.
    """
    return SameWindows()


@dataclass(frozen=True)
class DynamicGapSession:
    """Sessions with a dynamic gap: a column or expression of each row, at most ``longest_ms``."""

    gap: str | pl.Expr
    longest_ms: int

    def __repr__(self) -> str:
        gap = f'"{self.gap}"' if isinstance(self.gap, str) else expression_text(self.gap)
        return f'session({gap}, max_gap="{duration_text(self.longest_ms)}")'


def session(gap: Duration | pl.Expr, max_gap: Duration = "1d") -> Session | DynamicGapSession:
    """Make sessions: windows of the events of a key that are less than ``gap`` apart.

    ``gap`` may be a column or an expression with each row's own gap in ms (dynamic gap): the row
    then keeps its session open until its time + gap.  A record with a gap longer than ``max_gap``
    becomes a dead letter, so that the time a session stays open is bounded.
    """
    longest_ms = positive_ms(max_gap, "session(max_gap)")
    if isinstance(gap, pl.Expr) or (isinstance(gap, str) and not is_duration(gap)):
        return DynamicGapSession(gap, longest_ms)
    return Session(positive_ms(gap, "session(gap)"))


@dataclass(frozen=True)
class ProcessingTime:
    """Windows over processing time, the time at which ingest recorded rows."""

    window: Hopping | Calendar | Session | DynamicGapSession

    def __repr__(self) -> str:
        return f"processing_time({self.window!r})"


def processing_time(window: Hopping | Calendar | Session | DynamicGapSession) -> ProcessingTime:
    """Make windows over processing time, as ingest recorded it in the log.

    No row is late, and a replay gives the same panes.
    """
    if not isinstance(window, Hopping | Calendar | Session | DynamicGapSession):
        raise PipelineError(
            f"processing_time: {as_written(window)} is not one of tumbling(), hopping(), "
            "calendar() and session()"
        )
    return ProcessingTime(window)


def _hopping(size_ms: int, slide_ms: int, offset: Duration, what: str) -> Hopping:
    offset_ms = duration_ms(offset, f"{what}: offset")
    if abs(offset_ms) >= slide_ms:
        raise PipelineError(f"{what}: offset {offset!r} is not shorter than the slide")
    return Hopping(size_ms, slide_ms, offset_ms)
