"""Joins of the rows of a stream with the versions of a table."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn, get_args

import polars as pl

from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.joins.table_join import TableKind, Wait
from tidemark.core.rows.options import require_boolean, require_choice, require_count
from tidemark.core.time.duration import Duration, positive_ms
from tidemark.core.windows.trigger import Trigger
from tidemark.core.windows.window import not_too_long
from tidemark.errors import PipelineError
from tidemark.language.absent import absent
from tidemark.language.joins.broadcast import BroadcastTable
from tidemark.language.joins.joined_stream import JoinedStream, require_no_field
from tidemark.language.joins.sides import (
    is_on_close,
    lateness_of,
    require_condition,
    results_of,
    sides_of,
)
from tidemark.language.joins.tombstones import with_tombstones
from tidemark.language.keyed import KeyedStream
from tidemark.plan.logical import Node, TableStage
from tidemark.serde.formats.source_format import DebeziumFormat


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a keyed stream as versions of their keys; ``KeyedStream.table`` makes one."""

    stream: KeyedStream
    keep_ms: int
    deleted: pl.Expr | None

    def __repr__(self) -> str:
        return f"Table(key: {', '.join(self.stream.key)})"

    def broadcast(self, *, max_rows: int | None = None) -> BroadcastTable:
        """Return the table for rows of every key, in ``join`` or, as rules, in ``match``.

        ``max_rows``: the number of keys that it may have, by default 100,000, of rules 1,000.  Each
        partition holds all of them.

        Raises:
            PipelineError: ``max_rows`` is not a positive integer.
        """
        if max_rows is not None:
            require_count(max_rows, "broadcast(max_rows)")
        return BroadcastTable(self, max_rows)

    if not TYPE_CHECKING:  # type checkers know the attributes that there are

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AbsentMethodError, with what to write instead."""
            raise absent(self, name)


def table_of(
    stream: KeyedStream, keep: Duration, deleted: pl.Expr | None, *, tombstones: bool
) -> Table:
    """Return a table; see ``KeyedStream.table``."""
    if deleted is not None:
        require_condition(deleted, stream.node.columns, "table(deleted")
    elif any(isinstance(each.format, DebeziumFormat) for each in stream.node.sources()):
        raise PipelineError(
            "table(deleted): a change by which Debezium deletes a row would be a version; declare "
            'deleted=field("__deleted", bool) and pass deleted=col("deleted")'
        )
    require_boolean(tombstones, "table(tombstones)")
    keep_ms = not_too_long(positive_ms(keep, "table(keep)"), "table(keep)")
    node = with_tombstones(stream) if tombstones else stream.node
    return Table(replace(stream, node=node), keep_ms, deleted)


def joined_with_table(
    stream: KeyedStream,
    table: Table,
    *,
    how: Kind,
    wait: Wait,
    allowed_lateness: Duration,
    trigger: Trigger | None,
    suffix: str,
) -> JoinedStream:
    """Return the stream of rows with versions of a table; see ``KeyedStream.join``."""
    left, right = sides_of(stream, table.stream)
    if how not in get_args(TableKind):
        raise PipelineError(
            f"join(how): {how!r} is not one of {get_args(TableKind)}; versions of a table that no "
            "row asks for have no result"
        )
    require_choice(wait, Wait, "join(wait)")
    lateness_ms = lateness_of(allowed_lateness)
    on_close = is_on_close(trigger) and lateness_ms > 0 and wait == "event_time"
    shown, columns = results_of(left, right, suffix, how)
    require_no_field(columns, on_close=on_close)
    stage = TableStage(
        (left, right), shown, how, table.keep_ms, lateness_ms, wait, on_close, table.deleted
    )
    return JoinedStream(stream.dataflow, Node(columns, stage=stage), stage)
