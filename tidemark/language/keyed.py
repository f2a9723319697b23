"""Keyed streams: what can be done with the rows of each key."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import polars as pl

from tidemark.core.aggregates.aggregate import AggregateFunction
from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.joins.table_join import Wait
from tidemark.core.operators.ordered.values import RowValue
from tidemark.core.operators.ports import ALL
from tidemark.core.time.duration import Duration
from tidemark.core.windows.trigger import Trigger, on_update
from tidemark.errors import PipelineError
from tidemark.language.absent import absent
from tidemark.language.arrival_windows import ArrivalWindowSpec, global_window
from tidemark.language.output import publish_rows
from tidemark.language.windowed import WindowedStream, in_windows
from tidemark.language.windows import DynamicGapSession, ProcessingTime, SameWindows
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.html_table import html_table
from tidemark.plan.logical import (
    MAX_PAIRS,
    MAX_PARTIAL,
    Accumulation,
    Format,
    KeyedNode,
    Node,
    SessionLateness,
    Window,
)

if TYPE_CHECKING:
    from tidemark.language.aggregated import AggregatedStream
    from tidemark.language.joins.bounds import JoinWindow, Within
    from tidemark.language.joins.broadcast import BroadcastTable
    from tidemark.language.joins.joined_stream import JoinedStream
    from tidemark.language.joins.tables import Table
    from tidemark.language.patterns.matches import Matches, SkipName
    from tidemark.language.patterns.sequence import Sequence
    from tidemark.language.patterns.step import SkipTo
    from tidemark.language.stream import Stream


@dataclass(frozen=True, eq=False)
class KeyedStream:
    """A stream with separate state for each value of ``key``."""

    dataflow: Dataflow
    node: Node
    key: tuple[str, ...]

    def __repr__(self) -> str:
        return f"KeyedStream(key: {', '.join(self.key)})"

    def _repr_html_(self) -> str:
        """Return the columns and their types, for a notebook."""
        return html_table(repr(self), ("column", "type"), self.node.columns.items())

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
    ) -> WindowedStream:
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
        return in_windows(
            self.dataflow,
            self.node,
            self.key,
            window,
            allowed_lateness=allowed_lateness,
            trigger=trigger,
            lateness=lateness,
            accumulation=accumulation,
            empty=empty,
        )

    def aggregate(self, **aggregates: AggregateFunction) -> "AggregatedStream":
        """Compute running values of each key over all its rows so far: one pane for each row."""
        return self.window(global_window(), trigger=on_update()).aggregate(**aggregates)

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
        right: "KeyedStream | Table | BroadcastTable",
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
        With a table, ``wait="arrival"`` answers a row at once, by the versions before it.  With a
        broadcast table, a row joins the versions of all keys for which ``on`` holds.
        ``suffix``: for columns that both streams have.  ``max_pairs``: a row with more is late.

        Raises:
            PipelineError: the streams do not fit each other, or an option is not valid.
        """
        from tidemark.language.joins.broadcast import BroadcastTable, joined_with_broadcast
        from tidemark.language.joins.sides import require_no_options
        from tidemark.language.joins.streams import joined
        from tidemark.language.joins.tables import Table, joined_with_table

        of_streams = {"within": within, "max_within": max_within, "keep": keep, "window": window}
        if isinstance(right, BroadcastTable):
            require_no_options(of_streams)
            return joined_with_broadcast(
                self,
                right,
                how=how,
                on=on,
                wait=wait,
                allowed_lateness=allowed_lateness,
                trigger=trigger,
                suffix=suffix,
                max_pairs=max_pairs,
            )
        if isinstance(right, Table):
            of_pairs = {"on": on, "max_pairs": None if max_pairs == MAX_PAIRS else max_pairs}
            require_no_options({**of_streams, **of_pairs})
            return joined_with_table(
                self,
                right,
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

    def match(
        self,
        pattern: "Sequence | BroadcastTable",
        *,
        skip: "SkipName | SkipTo | None" = None,
        max_partial: int = MAX_PARTIAL,
        rule: str | None = None,
        max_within: Duration | None = None,
        wait: Wait = "event_time",
    ) -> "Matches":
        """Find rows of each key that follow each other: ``match(sequence(...).within("10m"))``.

        ``skip``: where the next match begins: "past_last", the default, "to_next",
        ``to_first("step")``, ``to_last("step")``, or anywhere with "none".  ``max_partial``: how
        many partial matches a key may have; the oldest rows of more are late.

        The patterns may also be rules, the versions of a broadcast table:
        ``match(rules.broadcast(), rule="rule", max_within="1h")``.  ``rule``: the column with a
        rule as JSON.  ``max_within``: the longest time of a rule.  ``wait``: a rule counts from its
        event time on, or with "arrival" from the clock on at which it comes.

        Raises:
            PipelineError: the pattern has no time, a condition is not one Boolean of a row,
                ``skip`` cannot move on, rows replace each other or are late, or an option does not
                fit.
        """
        from tidemark.language.joins.broadcast import BroadcastTable
        from tidemark.language.patterns.matches import matches
        from tidemark.language.patterns.rules import matches_of_rules

        if isinstance(pattern, BroadcastTable):
            return matches_of_rules(
                self, pattern, skip, max_partial, text=rule, max_within=max_within, wait=wait
            )
        if rule is not None or max_within is not None or wait != "event_time":
            raise PipelineError(
                "match: rule, max_within and wait are options of rules; pass a broadcast table, or "
                "leave them out"
            )
        rows = KeyedNode(self.node, self.key)
        return matches(self.dataflow, rows, pattern, skip, max_partial)

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
