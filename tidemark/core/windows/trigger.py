"""Triggers: when a window's panes are published.  Frozen values; docs/semantics.md, "Panes"."""

from dataclasses import dataclass

from tidemark.core.rows.expression import as_written
from tidemark.core.rows.options import require_count
from tidemark.core.time.duration import Duration, duration_text, positive_ms
from tidemark.errors import PipelineError


@dataclass(frozen=True, slots=True)
class EveryRows:
    """Publish a pane at every ``rows``-th row of a key and window."""

    rows: int

    def __post_init__(self) -> None:
        """Raise PipelineError if ``rows`` is not a positive integer."""
        require_count(self.rows, "every(rows)")

    def __repr__(self) -> str:
        return f"every(rows={self.rows})"

    def __str__(self) -> str:
        return "every row" if self.rows == 1 else f"every {self.rows} rows"


@dataclass(frozen=True, slots=True)
class EveryEventTime:
    """Publish a pane at each row that moves a key and window into a new interval of event time."""

    interval_ms: int

    def __repr__(self) -> str:
        return f'every(event_time="{duration_text(self.interval_ms)}")'

    def __str__(self) -> str:
        return f"every {duration_text(self.interval_ms)} of event time"


@dataclass(frozen=True, slots=True)
class EveryProcessingTime:
    """Publish the windows that changed each time a new interval of processing time begins.

    Processing time is recorded in the log.
    """

    interval_ms: int

    def __repr__(self) -> str:
        return f'every(processing_time="{duration_text(self.interval_ms)}")'

    def __str__(self) -> str:
        return f"every {duration_text(self.interval_ms)} of processing time"


Every = EveryRows | EveryEventTime | EveryProcessingTime


@dataclass(frozen=True, slots=True)
class OnClose:
    """Publish one pane when the clock reaches the end, then one per segment with rows behind it.

    ``early``: publishes panes before the end, with the rows that are on time.  ``late``: publishes
    a pane after the end only once that many rows are in no pane, or the window is final.
    """

    early: Every | None = None
    late: EveryRows | None = None

    def __repr__(self) -> str:
        named = (("early", self.early), ("late", self.late))
        options = (f"{name}={every!r}" for name, every in named if every is not None)
        return f"on_close({', '.join(options)})"

    def __str__(self) -> str:
        early = "" if self.early is None else f", early {self.early}"
        late = "" if self.late is None else f", late {self.late}"
        return f"on close{early}{late}"


@dataclass(frozen=True, slots=True)
class OnFinal:
    """Publish one pane with all rows, when the clock reaches end + allowed lateness."""

    def __repr__(self) -> str:
        return "on_final()"

    def __str__(self) -> str:
        return "on final"


Trigger = OnClose | OnFinal | Every


def late_rows_of(trigger: Trigger) -> int:
    """Return the number of rows behind after which a published window is published again."""
    late = trigger.late if isinstance(trigger, OnClose) else None
    return 1 if late is None else late.rows


def on_close(early: Every | None = None, late: Every | None = None) -> OnClose:
    """Publish a window when the clock reaches its end, and again if rows arrive after that.

    ``early``: also publish it before its end, for example ``every(rows=100)``.  ``late``: with
    ``every(rows=n)``, publish it again only once n rows are in no pane, and when it is final.

    Raises:
        PipelineError: ``early`` is not an ``every(...)``, or ``late`` not an ``every(rows=...)``.
    """
    if late is not None and not isinstance(late, EveryRows):
        raise PipelineError(f"on_close(late): {as_written(late)} is not every(rows=...)")
    if early is not None and not isinstance(early, Every):
        raise PipelineError(f"on_close(early): {as_written(early)} is not every(...)")
    # After each row is what on_close() does without the option.
    return OnClose(early, None if late == EveryRows(1) else late)


def on_final() -> OnFinal:
    """Publish a window once, when it can get no more rows."""
    return OnFinal()


def on_update() -> EveryRows:
    """Publish a window at each row added to it, and not at its close."""
    return EveryRows(1)


def every(
    *,
    rows: int | None = None,
    event_time: Duration | None = None,
    processing_time: Duration | None = None,
) -> Every:
    """Publish a window repeatedly: every ``rows`` rows, or every interval of time.

    Exactly one argument is required.  ``event_time``: an interval of the event time of the window's
    rows.  ``processing_time``: an interval of processing time, as ingest recorded it.

    Raises:
        PipelineError: not exactly one argument, or an argument that is not positive.
    """
    given = [value for value in (rows, event_time, processing_time) if value is not None]
    if len(given) != 1:
        raise PipelineError(
            f"every(): {len(given)} arguments; pass exactly one of rows, event_time and "
            "processing_time"
        )
    if rows is not None:
        return EveryRows(rows)
    if event_time is not None:
        return EveryEventTime(positive_ms(event_time, "every(event_time)"))
    assert processing_time is not None
    return EveryProcessingTime(positive_ms(processing_time, "every(processing_time)"))
