"""Keyed streams: windows over the rows of each key, and their aggregates."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, get_args

import polars as pl

from tidemark.core.aggregates.aggregate import AggregateFunction, Aggregation
from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.joins.table_join import Wait
from tidemark.core.operators.ordered.values import RowValue
from tidemark.core.operators.ports import ALL, shown_key
from tidemark.core.rows.byte_text import has_bytes
from tidemark.core.rows.expression import as_written
from tidemark.core.rows.options import require_boolean
from tidemark.core.time.duration import Duration, duration_ms
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.trigger import OnClose, OnFinal, Trigger, late_rows_of, on_update
from tidemark.core.windows.window import LONGEST_WINDOW_MS, Hopping, Session
from tidemark.errors import PipelineError
from tidemark.language.absent import absent
from tidemark.language.arrival_windows import (
    ArrivalWindowSpec,
    discarding,
    global_window,
    require_publishing_trigger,
    resolve_windows,
)
from tidemark.language.output import publish_rows
from tidemark.language.stream_windows import same_windows, with_gap
from tidemark.language.windows import DynamicGapSession, ProcessingTime, SameWindows
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.logical import (
    MAX_PAIRS,
    Accumulation,
    Format,
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
    from tidemark.language.joins.bounds import JoinWindow, Within
    from tidemark.language.joins.joined_stream import JoinedStream
    from tidemark.language.joins.tables import Table
    from tidemark.language.stream import Stream


@dataclass(frozen=True, eq=False)
class KeyedStream:
    """A stream with separate state for each value of ``key``."""

    dataflow: Dataflow
    node: Node
    key: tuple[str, ...]

    def __repr__(self) -> str:
        return f"KeyedStream(key: {', '.join(self.key)})"

    if not TYPE_CHECKING:  # type checkers know the methods that there are

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AbsentMethodError, with what to write instead."""
            raise absent(self, name)

    def window(
        self,
        window: Window | SameWindows | DynamicGapSession | ProcessingTime | ArrivalWindowSpec,
        *,
        allowed_lateness: Duration = 0,
        trigger: Trigger | None = None,
        lateness: SessionLateness | None = None,
        accumulation: Accumulation = "accumulating",
        empty: bool = False,
    ) -> "WindowedStream":
        """Group the rows of each key in windows.

        ``allowed_lateness``: how long after its end a window accepts rows.  ``trigger``: when panes
        are published; default ``on_close()``.  ``lateness``, for sessions: a row is late by its
        own time with ``"strict"``, the default, or by its session ``"after_merging"``.
        ``accumulation``: a pane holds all rows of its window, or with ``"discarding"`` the rows
        since the pane before.
        ``empty``: also publish windows without rows, between the first and last of each key.

        Raises:
            PipelineError: an option does not fit the windows, or a column's type or name does not.
        """
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
            _require_choice(accumulation, Accumulation, "window(accumulation)")
            return self._in_arrival_order(window, trigger, accumulation)
        node, window = self._windows_on(window)
        if window.longest_ms > LONGEST_WINDOW_MS:
            raise PipelineError(
                f"window: {window!r} is longer than {LONGEST_WINDOW_MS // 86_400_000:,} days"
            )
        if lateness_ms < 0:
            raise PipelineError(f"window(allowed_lateness): {allowed_lateness!r} is negative")
        _require_choice(accumulation, Accumulation, "window(accumulation)")
        _require_lateness(window, lateness)
        windowed = WindowDefinition(
            node,
            self.key,
            window,
            lateness_ms + node.behind_ms,
            trigger or OnClose(),
            lateness or "strict",
            accumulation,
            by_processing_time,
            empty,
        )
        require_replaceable(windowed)
        return WindowedStream(self.dataflow, windowed)

    def _windows_on(self, window: Window | SameWindows | DynamicGapSession) -> tuple[Node, Window]:
        """Return the windows, and the stream with the columns that they need."""
        if isinstance(window, DynamicGapSession):
            return with_gap(self.node, window)
        if isinstance(window, SameWindows):
            return self.node, same_windows(self.node)
        if not isinstance(window, Window):
            raise PipelineError(
                f"window: {as_written(window)} is not a window; use tumbling(), hopping(), "
                "calendar(), sliding(), session(), processing_time(), count_window(), delta(), "
                "punctuation(), global_window() or same()"
            )
        return self.node, window

    def aggregate(self, **aggregates: AggregateFunction) -> "AggregatedStream":
        """Compute running values of each key over all its rows so far: one pane for each row."""
        return self._in_arrival_order(global_window(), on_update()).aggregate(**aggregates)

    def distinct_by(self, *columns: str, within: Duration) -> "Stream":
        """Keep the first row of each value of ``columns``, and the next only after ``within``.

        Rows are taken in order of event time.  A row is kept if no row of the same key and values
        was kept less than ``within`` before it.  Without ``columns`` the key alone counts.

        Raises:
            PipelineError: a column is missing or cannot be a key, or the time is not positive.
        """
        from tidemark.language.ordered import distinct

        return distinct(self.dataflow, self.node, self.key, columns, within)

    def scan(self, *, max_silence: Duration | None = None, **values: RowValue) -> "Stream":
        """Add values of each row and those of its key before: ``scan(delta=diff("celsius"))``.

        Rows are taken in order of event time.  ``max_silence``: a key without rows for that long
        begins anew; without it the state of a key stays for ever.

        Raises:
            PipelineError: a value is not ``prev``, ``diff`` or ``cum_sum``, does not fit its
                column, or has a name that is taken.
        """
        from tidemark.language.ordered import scanned

        return scanned(self.dataflow, self.node, self.key, values, max_silence)

    def table(
        self, *, keep: Duration, deleted: pl.Expr | None = None, tombstones: bool = True
    ) -> "Table":
        """Return the rows as versions of their keys, for ``join``.

        ``keep``: how much older than a row a version may be that answers it.  ``deleted``: whether
        a row says that its key has no values from then on.  ``tombstones``: whether a record
        without a value says so of its Kafka key.

        Raises:
            PipelineError: ``keep`` is not a positive duration, ``deleted`` is not Boolean, or the
                Kafka key cannot give a column of the key.
        """
        from tidemark.language.joins.tables import table_of

        return table_of(self, keep, deleted, tombstones=tombstones)

    def join(
        self,
        right: "KeyedStream | Table",
        *,
        within: "Within | None" = None,
        max_within: Duration | None = None,
        keep: Duration | None = None,
        window: "JoinWindow | DynamicGapSession | None" = None,
        how: Kind = "inner",
        on: pl.Expr | None = None,
        allowed_lateness: Duration = 0,
        trigger: Trigger | None = None,
        suffix: str = "_right",
        max_pairs: int = MAX_PAIRS,
        wait: Wait = "event_time",
    ) -> "JoinedStream":
        """Join the rows of each key with those of another stream or table that has the same key.

        ``within``: how far the right row may lie from the left one: ``"10m"`` both ways, or
        ``("-10m", "1h")``, both ends included; the upper bound may be an expression over the left
        row, with ``max_within``.  ``keep``: rows join whatever their order, and wait for that long.
        ``window``: rows join that are in the same tumbling, hopping, calendar or session window.
        ``how``: "inner", "left", "right", "full", "semi" or "anti".  ``on``: a condition on a pair.
        ``trigger``: an unmatched row is published once no partner can come, or with
        ``on_close()`` at the end of its interval, and withdrawn if a late partner comes.
        With a table, ``wait="arrival"`` answers a row at once, by the versions before it.
        ``suffix``: for columns that both streams have.  ``max_pairs``: a row with more is late.

        Raises:
            PipelineError: the streams do not fit each other, or an option is not valid.
        """
        from tidemark.language.joins.streams import joined
        from tidemark.language.joins.tables import Table, joined_with_table

        if isinstance(right, Table):
            given: dict[str, object] = {"within": within, "max_within": max_within, "keep": keep}
            given |= {"window": window, "on": on}
            given["max_pairs"] = None if max_pairs == MAX_PAIRS else max_pairs
            return joined_with_table(
                self,
                right,
                [name for name, value in given.items() if value is not None],
                how=how,
                wait=wait,
                allowed_lateness=allowed_lateness,
                trigger=trigger,
                suffix=suffix,
            )
        if wait != "event_time":
            raise PipelineError("join(wait): only a join with a table has it; call table() first")
        return joined(
            self,
            right,
            within=within,
            max_within=max_within,
            keep=keep,
            window=window,
            how=how,
            on=on,
            allowed_lateness=allowed_lateness,
            trigger=trigger,
            suffix=suffix,
            max_pairs=max_pairs,
        )

    def to(self, name: str, format: Format = "json") -> None:  # noqa: A002 - the word users know
        """Publish each row on topic ``<pipeline>.<name>``, in the partition of its key.

        Raises:
            PipelineError: the name is not legal or is taken, a column has the name of a field of
                every row, the format is unknown, or Avro does not support a name or type.
        """
        if self.key == (ALL,):
            raise PipelineError(
                f"to({name!r}): key_by() has no column; leave it out: rows are published in the "
                "order of their partitions"
            )
        publish_rows(self.dataflow, self.node, self.key, name, format)

    def _in_arrival_order(
        self,
        window: ArrivalWindowSpec,
        trigger: Trigger | None,
        accumulation: Accumulation = "accumulating",
    ) -> "WindowedStream":
        used = trigger or OnClose()
        node, windows = resolve_windows(self.node, window)
        require_publishing_trigger(windows, used)
        if accumulation == "discarding":
            windows, used, accumulation = discarding(windows, used)
        windowed = WindowDefinition(node, self.key, windows, 0, used, accumulation=accumulation)
        require_replaceable(windowed)
        return WindowedStream(self.dataflow, windowed)


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


def _require_choice(value: object, choices: object, what: str) -> None:
    if value not in get_args(choices):
        raise PipelineError(f"{what}: {value!r} is not one of {get_args(choices)}")


def _require_lateness(window: Window, lateness: object) -> None:
    if lateness is None:
        return
    if not isinstance(window, Session):
        raise PipelineError(f"window(lateness): {lateness!r} is an option of session() only")
    _require_choice(lateness, SessionLateness, "window(lateness)")


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
        for name, aggregate in aggregates.items():
            if not callable(getattr(aggregate, "parts", None)):
                raise PipelineError(
                    f"aggregate({name}): {as_written(aggregate)} is not an aggregate; use count(), "
                    "sum('column') or another aggregate of tidemark"
                )
        require_values(list(aggregates), shown_key(self.windowed.key), "aggregate")
        aggregation = Aggregation(aggregates, self.windowed.node.columns)
        require_no_arrival(self.windowed.node, aggregation)
        for name, dtype in aggregation.types.items():
            if has_bytes(dtype):
                raise PipelineError(
                    f"{name}={aggregates[name]}: results cannot hold bytes ({dtype}); make "
                    "them text first, such as col('body').bin.encode('base64')"
                )
        # A stream makes keyed streams, and their results are a stream again.
        from tidemark.language.aggregated import aggregated

        return aggregated(self.dataflow, Stage(self.windowed, aggregation))
