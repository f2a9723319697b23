"""Triggers: when a window's panes are published.  Frozen values; docs/semantics.md, "Panes"."""

from dataclasses import dataclass

from tidemark.core.time.duration import Duration, duration_ms, duration_text
from tidemark.errors import PipelineError


@dataclass(frozen=True, slots=True)
class EveryRows:
    """A pane at every ``rows``-th row of a key and window."""

    rows: int

    def __post_init__(self) -> None:
        """Refuse what is no number of rows."""
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise PipelineError(f"every(rows): {self.rows!r} is not a positive integer")

    def __str__(self) -> str:
        return "every row" if self.rows == 1 else f"every {self.rows} rows"


@dataclass(frozen=True, slots=True)
class EveryEventTime:
    """A pane at each row that takes a key and window into another ``interval_ms`` of event time."""

    interval_ms: int

    def __str__(self) -> str:
        return f"every {duration_text(self.interval_ms)} of event time"


@dataclass(frozen=True, slots=True)
class EveryProcessingTime:
    """A pane of what changed, each time ``interval_ms`` of recorded processing time begin."""

    interval_ms: int

    def __str__(self) -> str:
        return f"every {duration_text(self.interval_ms)} of processing time"


Every = EveryRows | EveryEventTime | EveryProcessingTime


@dataclass(frozen=True, slots=True)
class OnClose:
    """One pane when the clock reaches the end; then one for each segment with rows behind it.

    ``early``: panes before that, of the rows that are on time.
    """

    early: Every | None = None

    def __str__(self) -> str:
        return "on close" if self.early is None else f"on close, early {self.early}"


@dataclass(frozen=True, slots=True)
class OnFinal:
    """One pane with everything, when the clock reaches end + allowed lateness."""

    def __str__(self) -> str:
        return "on final"


Trigger = OnClose | OnFinal | Every


def on_close(early: Every | None = None) -> OnClose:
    """Publish a window when the clock reaches its end, and again when rows come after that.

    ``early``: publish it before that too, ``every(rows=100)`` for example.
    """
    if early is not None and not isinstance(early, Every):
        raise PipelineError(f"on_close(early): {early!r} is not every(...)")
    return OnClose(early)


def on_final() -> OnFinal:
    """Publish a window once, when no row can be added any more."""
    return OnFinal()


def on_update() -> EveryRows:
    """Publish a window at each row added to it, and not when it closes."""
    return EveryRows(1)


def every(
    *,
    rows: int | None = None,
    event_time: Duration | None = None,
    processing_time: Duration | None = None,
) -> Every:
    """Publish a window again and again: at every so many rows, or so much time.

    Give one of ``rows``, ``event_time`` (of the key's rows in the window) and ``processing_time``
    (as ingest recorded it).
    """
    given = [value for value in (rows, event_time, processing_time) if value is not None]
    if len(given) != 1:
        raise PipelineError("every() takes one of rows, event_time and processing_time")
    if rows is not None:
        return EveryRows(rows)
    if event_time is not None:
        return EveryEventTime(_interval_ms(event_time, "every(event_time)"))
    assert processing_time is not None
    return EveryProcessingTime(_interval_ms(processing_time, "every(processing_time)"))


def _interval_ms(value: Duration, what: str) -> int:
    interval_ms = duration_ms(value, what)
    if interval_ms <= 0:
        raise PipelineError(f"{what}: {value!r} is not longer than 0")
    return interval_ms
