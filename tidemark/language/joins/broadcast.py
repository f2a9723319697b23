"""Joins with broadcast tables: each row meets the versions of all keys of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import polars as pl

from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.joins.table_join import Wait
from tidemark.core.rows.copies import COPY, Copies
from tidemark.core.rows.options import require_choice, require_count
from tidemark.core.time.duration import Duration
from tidemark.core.windows.trigger import Trigger
from tidemark.errors import PipelineError
from tidemark.language.absent import absent
from tidemark.language.joins.joined_stream import JoinedStream, require_no_field
from tidemark.language.joins.sides import is_on_close, lateness_of, results_of, two_sides
from tidemark.language.keyed import KeyedStream
from tidemark.plan.broadcast_stage import MAX_ROWS, BroadcastStage
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.logical import KeyedNode, Node

if TYPE_CHECKING:
    from tidemark.language.joins.tables import Table

_ONE_SIDED = ("right", "full")


@dataclass(frozen=True, eq=False)
class BroadcastTable:
    """A table for the rows of every key; ``Table.broadcast`` makes one."""

    table: "Table"
    max_rows: int | None

    def __repr__(self) -> str:
        return f"BroadcastTable(key: {', '.join(self.table.stream.key)})"

    if not TYPE_CHECKING:  # type checkers know the attributes that there are

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AbsentMethodError, with what to write instead."""
            raise absent(self, name)


def joined_with_broadcast(
    stream: KeyedStream,
    broadcast: BroadcastTable,
    *,
    how: Kind,
    on: pl.Expr | None,
    wait: Wait,
    allowed_lateness: Duration,
    trigger: Trigger | None,
    suffix: str,
    max_pairs: int,
) -> JoinedStream:
    """Return the stream of rows with versions of all keys; see ``KeyedStream.join``."""
    table = broadcast.table
    left, right = two_sides(stream, table.stream)
    require_choice(how, Kind, "join(how)")
    if how in _ONE_SIDED:
        raise PipelineError(
            f"join(how): {how!r} asks for versions without a row, but each partition has a copy of "
            "a broadcast table, and none knows the rows of the others; write how='inner', 'left', "
            "'semi' or 'anti'"
        )
    require_choice(wait, Wait, "join(wait)")
    require_count(max_pairs, "join(max_pairs)")
    lateness_ms = lateness_of(allowed_lateness)
    if is_on_close(trigger) and lateness_ms > 0:
        raise PipelineError(
            "join(trigger): a join with a broadcast table answers a row once, when no version can "
            "change its answer; leave out trigger=on_close(), or allowed_lateness"
        )
    shown, columns = results_of(left, right, suffix, how, on, with_right_key=True)
    require_no_field(columns, on_close=False)
    key = {name: columns[name] for name in left.key}
    stage = BroadcastStage(
        (left, KeyedNode(copied(stream.dataflow, right.node, key), right.key)),
        shown,
        how,
        table.keep_ms,
        lateness_ms,
        wait,
        on_close=False,
        deleted=table.deleted,
        condition=on,
        max_rows=broadcast.max_rows or MAX_ROWS,
        max_pairs=max_pairs,
    )
    return JoinedStream(stream.dataflow, Node(columns, stage=stage), stage)


def copied(dataflow: Dataflow, node: Node, beside: Mapping[str, pl.DataType]) -> Node:
    """Return the stream of the copies of rows for every partition of a log; the same at each call.

    ``beside``: the key columns of the log, with types.
    """
    path = ((COPY, tuple(f"{name} {dtype}" for name, dtype in beside.items())),)
    known = dataflow.keyed_nodes.get((node, path))
    if known is None:
        known = Node({**node.columns, COPY: pl.Boolean()}, (node,), Copies(node.columns, beside))
        dataflow.keyed_nodes[node, path] = known
    return known
