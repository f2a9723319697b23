"""Windows in order of arrival as users write them: ``count_window(100)``, ``delta("speed", 5)``.

See docs/semantics.md, "Windows in order of arrival".
"""

from dataclasses import dataclass
from math import floor, isfinite

import polars as pl

from tidemark.core.aggregates.basic import RowOrder
from tidemark.core.rows.expression import (
    expression_text,
    output_types,
    require_column,
    require_expression,
)
from tidemark.core.rows.options import require_choice
from tidemark.core.rows.probe import require_row_wise
from tidemark.core.rows.row_operators import WithColumns
from tidemark.core.windows.arrival import (
    CLOSES,
    ArrivalWindow,
    CountWindow,
    DeltaWindow,
    GlobalWindow,
    PunctuationWindow,
    StepWindow,
)
from tidemark.core.windows.trigger import (
    EveryEventTime,
    EveryProcessingTime,
    EveryRows,
    OnClose,
    OnFinal,
    Trigger,
)
from tidemark.errors import PipelineError
from tidemark.plan.logical import Accumulation, Node
from tidemark.plan.operators.late import require_not_late

_MOST = 2**62


@dataclass(frozen=True, slots=True)
class DeltaSpec:
    """The arguments of ``delta``; the stream that it is used on gives the column's type."""

    column: str
    threshold: float

    def __repr__(self) -> str:
        return f'delta("{self.column}", {self.threshold})'

    def resolve(self, node: Node) -> tuple[Node, ArrivalWindow]:
        """Return the stream, and the windows for the type of its column.

        Raises:
            PipelineError: the column is missing, or not of integers or floats.
        """
        what = repr(self)
        require_column(self.column, node.columns, what)
        found = node.columns[self.column]
        if found.is_float():
            return node, DeltaWindow(self.column, self.threshold, floats=True)
        if found.is_integer() and found not in (pl.UInt64, pl.Int128, pl.UInt128):
            # Integers differ by more than 2.5 exactly if they differ by more than 2.
            return node, DeltaWindow(self.column, floor(self.threshold), floats=False)
        raise PipelineError(f"{what}: column {self.column!r} is {found}, not integers or floats")


@dataclass(frozen=True, eq=False, slots=True)
class PunctuationSpec:
    """The argument of ``punctuation``; ingest evaluates it as a column of the stream, CLOSES."""

    when: pl.Expr

    def __repr__(self) -> str:
        return f"punctuation(when={expression_text(self.when)})"

    def resolve(self, node: Node) -> tuple[Node, ArrivalWindow]:
        """Return the stream with the column CLOSES, and its windows.

        Raises:
            PipelineError: the expression is not one row-wise Boolean.
        """
        what = f"punctuation({expression_text(self.when)})"
        types = list(output_types([self.when], node.columns, what).values())
        if types != [pl.Boolean()]:
            found = ", ".join(map(str, types))
            raise PipelineError(f"{what}: the expression gives {found}, not one Boolean")
        require_row_wise(self.when, node.columns, what)
        marks = {CLOSES: pl.Boolean()}
        operator = WithColumns(node.columns, (self.when.alias(CLOSES),), marks)
        return Node({**node.columns, **marks}, (node,), operator), PunctuationWindow(
            expression_text(self.when)
        )


ArrivalWindowSpec = CountWindow | GlobalWindow | DeltaSpec | PunctuationSpec


def count_window(
    size: int, slide: int | None = None, *, order: RowOrder = "arrival"
) -> CountWindow:
    """Make windows of ``size`` rows of a key; a new window begins every ``slide`` rows.

    ``order``: rows are counted as they arrive, or with ``"event_time"`` in order of event time,
    once time has passed them.
    """
    require_choice(order, RowOrder, "count_window(order)")
    by_event_time = order == "event_time"
    _require_rows(size, "count_window(size)")
    if slide is None:
        return CountWindow(size, size, by_event_time)
    _require_rows(slide, "count_window(slide)")
    if slide > size:
        raise PipelineError(
            f"count_window(slide): {slide} is more than the size {size}; rows between two windows "
            "would be in no window"
        )
    return CountWindow(size, slide, by_event_time)


def delta(column: str, threshold: float) -> DeltaSpec:
    """Begin a window at each row whose ``column`` differs by more than ``threshold``.

    It is compared with the first value of the open window.
    """
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not number or not isfinite(threshold) or not 0 <= threshold <= _MOST:
        raise PipelineError(f"delta(threshold): {threshold!r} is not a number from 0 to 2**62")
    if not isinstance(column, str):
        raise PipelineError(f"delta(column): {column!r} is not a column name")
    return DeltaSpec(column, threshold)


def punctuation(*, when: pl.Expr) -> PunctuationSpec:
    """End a key's window with each row for which ``when``, a row-wise Boolean, is true."""
    return PunctuationSpec(require_expression(when, "punctuation(when)"))


def global_window() -> GlobalWindow:
    """Put all rows of a key in one window that never ends; only ``every()`` publishes it.

    With ``accumulation="discarding"`` each pane ends a window, and the next window begins.
    """
    return GlobalWindow()


def resolve_windows(node: Node, window: ArrivalWindowSpec) -> tuple[Node, ArrivalWindow]:
    """Return the stream with the columns that windows need, and the windows for its types.

    Raises:
        PipelineError: the windows take rows in order of event time, and the rows are late ones.
    """
    if isinstance(window, CountWindow) and window.by_event_time:
        require_not_late(node, 'count_window(order="event_time")')
    return (
        (node, window) if isinstance(window, CountWindow | GlobalWindow) else window.resolve(node)
    )


def require_publishing_trigger(windows: ArrivalWindow, trigger: Trigger) -> None:
    """Raise PipelineError if the trigger would never publish the windows, or does not fit them."""
    early = trigger.early if isinstance(trigger, OnClose) else trigger
    if isinstance(windows, GlobalWindow) and (early is None or isinstance(early, OnFinal)):
        raise PipelineError(
            "window: global_window() never closes; pass a trigger: every(...) or on_update()"
        )
    by_event_time = isinstance(windows, CountWindow) and windows.by_event_time
    if by_event_time and isinstance(early, EveryProcessingTime):
        raise PipelineError(
            f"window: {windows!r} has panes by rows and event time only; use every(rows=...) or "
            "every(event_time=...)"
        )


def discarding(
    windows: ArrivalWindow, trigger: Trigger
) -> tuple[ArrivalWindow, Trigger, Accumulation]:
    """Return the windows, trigger and accumulation that implement "discarding".

    Each pane of a discarding global window ends it, so it becomes windows that close.  Windows
    that are published only at their close have one pane, so there is nothing to discard.
    """
    early = trigger.early if isinstance(trigger, OnClose) else trigger
    if early is None or isinstance(early, OnFinal):
        return windows, trigger, "accumulating"
    if isinstance(windows, GlobalWindow) and isinstance(early, EveryEventTime):
        return StepWindow(early.interval_ms), OnClose(), "accumulating"
    if isinstance(windows, GlobalWindow) and isinstance(early, EveryRows):
        return CountWindow(early.rows, early.rows), OnClose(), "accumulating"
    return windows, trigger, "discarding"


def _require_rows(value: object, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST:
        raise PipelineError(f"{what}: {value!r} is not a positive number of rows")
