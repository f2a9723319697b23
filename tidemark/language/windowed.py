"""Windows over the rows of each key: the options of ``window``, and aggregates of each window."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tidemark.core.aggregates.aggregate import AggregateFunction, Aggregation
from tidemark.core.operators.ports import shown_key
from tidemark.core.rows.byte_text import has_bytes
from tidemark.core.rows.expression import as_written
from tidemark.core.rows.options import require_boolean, require_choice
from tidemark.core.time.duration import Duration, duration_ms
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.trigger import OnClose, OnFinal, Trigger, late_rows_of
from tidemark.core.windows.window import LONGEST_WINDOW_MS, Hopping, Session
from tidemark.errors import PipelineError
from tidemark.language.absent import absent
from tidemark.language.arrival_windows import (
    ArrivalWindowSpec,
    discarding,
    require_publishing_trigger,
    resolve_windows,
)
from tidemark.language.stream_windows import same_windows, with_gap
from tidemark.language.windows import DynamicGapSession, ProcessingTime, SameWindows
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.logical import (
    Accumulation,
    Node,
    SessionLateness,
    Stage,
    Window,
    WindowDefinition,
)
from tidemark.plan.names import require_values
from tidemark.plan.operators.replacing import require_no_arrival, require_replaceable

if TYPE_CHECKING:
    from tidemark.language.aggregated import AggregatedStream


@dataclass(frozen=True, eq=False)
class WindowedStream:
    """A keyed stream in windows."""

    dataflow: Dataflow
    windowed: WindowDefinition

    def __repr__(self) -> str:
        return f"WindowedStream({self.windowed.window.label})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AbsentMethodError, with what to write instead."""
            raise absent(self, name)

    def aggregate(self, **aggregates: AggregateFunction) -> "AggregatedStream":
        """Compute named values of each window: ``aggregate(pops=count(), best=max("score"))``.

        Raises:
            PipelineError: a value is not an aggregate, does not fit the columns, or its name is
                taken.
        """
        node = self.windowed.node
        require_aggregates(aggregates, shown_key(self.windowed.key))
        aggregation = Aggregation(aggregates, node.columns)
        require_no_arrival(node, aggregation)
        for name, dtype in aggregation.types.items():
            if has_bytes(dtype):
                raise PipelineError(
                    f"{name}={aggregates[name]}: results cannot hold bytes ({dtype}); make "
                    "them text first, such as col('body').bin.encode('base64')"
                )
        # A stream makes keyed streams, and their results are a stream again.
        from tidemark.language.aggregated import aggregated

        return aggregated(self.dataflow, Stage(self.windowed, aggregation))


def in_windows(
    dataflow: Dataflow,
    node: Node,
    key: tuple[str, ...],
    window: Window | SameWindows | DynamicGapSession | ProcessingTime | ArrivalWindowSpec,
    *,
    allowed_lateness: Duration,
    trigger: Trigger | None,
    lateness: SessionLateness | None,
    accumulation: Accumulation,
    empty: bool,
) -> WindowedStream:
    """Return the rows of each key in windows; see ``KeyedStream.window``."""
    by_processing_time = isinstance(window, ProcessingTime)
    if isinstance(window, ProcessingTime):
        _require_no_lateness(allowed_lateness, lateness)
        window = window.window
    _require_trigger(trigger)
    require_boolean(empty, "window(empty)")
    lateness_ms = duration_ms(allowed_lateness, "window(allowed_lateness)")
    _require_late_rows(trigger, lateness_ms)
    if empty:
        _require_filled(window, trigger)
    if isinstance(window, ArrivalWindowSpec):
        _require_no_lateness(allowed_lateness, lateness)
        require_choice(accumulation, Accumulation, "window(accumulation)")
        return _in_arrival_order(dataflow, node, key, window, trigger or OnClose(), accumulation)
    node, window = _windows_on(node, window)
    if window.longest_ms > LONGEST_WINDOW_MS:
        raise PipelineError(
            f"window: {window!r} is longer than {LONGEST_WINDOW_MS // 86_400_000:,} days"
        )
    if lateness_ms < 0:
        raise PipelineError(f"window(allowed_lateness): {allowed_lateness!r} is negative")
    require_choice(accumulation, Accumulation, "window(accumulation)")
    _require_lateness(window, lateness)
    windowed = WindowDefinition(
        node,
        key,
        window,
        lateness_ms + node.behind_ms,
        trigger or OnClose(),
        lateness or "strict",
        accumulation,
        by_processing_time,
        empty,
    )
    require_replaceable(windowed)
    return WindowedStream(dataflow, windowed)


def require_aggregates(aggregates: Mapping[str, AggregateFunction], key: tuple[str, ...]) -> None:
    """Raise PipelineError if values of ``aggregate`` are not aggregates with names of their own.

    ``key``: the columns of the key that results have.
    """
    for name, aggregate in aggregates.items():
        if not callable(getattr(aggregate, "parts", None)):
            raise PipelineError(
                f"aggregate({name}): {as_written(aggregate)} is not an aggregate; use count(), "
                "sum('column') or another aggregate of tidemark"
            )
    require_values(list(aggregates), key, "aggregate")


def _in_arrival_order(
    dataflow: Dataflow,
    node: Node,
    key: tuple[str, ...],
    window: ArrivalWindowSpec,
    trigger: Trigger,
    accumulation: Accumulation,
) -> WindowedStream:
    node, windows = resolve_windows(node, window)
    require_publishing_trigger(windows, trigger)
    if accumulation == "discarding":
        windows, trigger, accumulation = discarding(windows, trigger)
    windowed = WindowDefinition(node, key, windows, 0, trigger, accumulation=accumulation)
    require_replaceable(windowed)
    return WindowedStream(dataflow, windowed)


def _windows_on(
    node: Node, window: Window | SameWindows | DynamicGapSession
) -> tuple[Node, Window]:
    """Return the stream with the columns that the windows need, and the windows."""
    if isinstance(window, DynamicGapSession):
        return with_gap(node, window)
    if isinstance(window, SameWindows):
        return node, same_windows(node)
    if not isinstance(window, Window):
        raise PipelineError(
            f"window: {as_written(window)} is not a window; use tumbling(), hopping(), "
            "calendar(), sliding(), session(), processing_time(), count_window(), delta(), "
            "punctuation(), global_window() or same()"
        )
    return node, window


def _require_no_lateness(allowed_lateness: Duration, lateness: object) -> None:
    """Raise PipelineError for options of lateness on windows without late rows."""
    if allowed_lateness != 0 or lateness is not None:
        raise PipelineError(
            "window(allowed_lateness, lateness): windows by rows or by processing time do not wait "
            "for late rows; leave them out"
        )


def _require_trigger(trigger: object) -> None:
    if trigger is not None and not isinstance(trigger, Trigger):
        raise PipelineError(
            f"window(trigger): {as_written(trigger)} is not a trigger; use on_close(), on_final(), "
            "on_update() or every()"
        )


def _require_late_rows(trigger: Trigger | None, lateness_ms: int) -> None:
    if late_rows_of(trigger or OnClose()) > 1 and lateness_ms == 0:
        raise PipelineError(
            f"window(trigger): {trigger!r}: without allowed_lateness a window accepts no rows "
            "after its end; add allowed_lateness, or leave out late"
        )


def _require_filled(window: object, trigger: Trigger | None) -> None:
    if not isinstance(window, Hopping | Calendar):
        raise PipelineError(
            "window(empty): only tumbling(), hopping() and calendar() have windows without rows"
        )
    if not isinstance(trigger or OnClose(), OnClose | OnFinal):
        raise PipelineError(
            f"window(empty): trigger {trigger!r} does not publish windows at their close; use "
            "on_close() or on_final()"
        )
    if late_rows_of(trigger or OnClose()) > 1:
        raise PipelineError("window(empty): on_close(late=...) cannot be combined with empty=True")


def _require_lateness(window: Window, lateness: object) -> None:
    if lateness is None:
        return
    if not isinstance(window, Session):
        raise PipelineError(f"window(lateness): {lateness!r} is an option of session() only")
    require_choice(lateness, SessionLateness, "window(lateness)")
