"""Joined streams: the pairs of rows of two keyed streams, published or handed on as rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, get_args

import polars as pl

from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.ports import ALL, LATE, shown_columns
from tidemark.core.operators.rows import row_fields
from tidemark.core.rows.byte_text import has_bytes
from tidemark.core.rows.expression import (
    as_written,
    expression_text,
    metadata_used,
    output_types,
    require_expression,
)
from tidemark.core.rows.probe import require_no_failure, require_row_wise
from tidemark.core.time.duration import Duration, duration_ms, duration_text, positive_ms
from tidemark.core.windows.pane import REVISION
from tidemark.core.windows.trigger import OnClose, OnFinal, Trigger
from tidemark.core.windows.window import LONGEST_WINDOW_MS
from tidemark.errors import PipelineError
from tidemark.language.keyed import KeyedStream
from tidemark.language.output import require_rows
from tidemark.language.stream import Stream
from tidemark.plan.logical import Format, JoinOutput, JoinStage, KeyedNode, Node, Relation
from tidemark.plan.names import require_new_columns
from tidemark.plan.operators.joins import join_body
from tidemark.plan.operators.late import require_not_late
from tidemark.plan.operators.replacing import require_rows_that_stay
from tidemark.serde.avro_results import record_schema

Within = Duration | tuple[Duration, Duration | pl.Expr]
"""How far a right row may lie from a left one: both ways, or from the first time to the second."""


@dataclass(frozen=True, eq=False)
class JoinedStream(Stream):
    """The rows of a join: those of the key, then of the left and of the right stream."""

    stage: JoinStage

    def __repr__(self) -> str:
        return f"JoinedStream({self.stage.how}, {', '.join(self.node.columns)})"

    def to(self, name: str, format: Format = "json") -> None:  # noqa: A002 - the word users know
        """Publish rows on topic ``<pipeline>.<name>``.

        Late rows are on ``<pipeline>.<name>.late-left`` and ``<pipeline>.<name>.late-right``.

        Raises:
            PipelineError: the name is not legal or is taken, a column has a type without a form in
                JSON, the format is unknown, or Avro does not support a name or type.
        """
        require_rows(self.dataflow, self.node.columns, self.stage.key, name, format, by_id=True)
        for column, dtype in self.node.columns.items():
            if has_bytes(dtype):
                raise PipelineError(
                    f"to({name!r}): column {column!r} is {dtype}, and results cannot hold bytes; "
                    "make them text first, such as col('body').bin.encode('base64')"
                )
        if format == "avro":
            for port in join_body(self.stage, self.stage.shown, name).outputs:
                if not port.is_dead_letters:
                    end = f".{port.name}" if port.kind == LATE else ""
                    record_schema(f"{self.dataflow.name}.{name}{end}", port)
        self.dataflow.add_output(JoinOutput(name, format, self.stage))


class _Bounds(NamedTuple):
    """The bounds of a join in ms; ``upper``: that of each left row, ``upper_ms`` the highest."""

    lower_ms: int
    upper_ms: int
    upper: pl.Expr | None
    relation: Relation


def joined(
    left_stream: KeyedStream,
    right_stream: KeyedStream,
    *,
    within: Within | None,
    max_within: Duration | None,
    keep: Duration | None,
    how: Kind,
    on: pl.Expr | None,
    allowed_lateness: Duration,
    trigger: Trigger | None,
    suffix: str,
    max_pairs: int,
) -> JoinedStream:
    """Return the stream of the pairs of two keyed streams; see ``KeyedStream.join``."""
    left, right = _inputs(left_stream, right_stream)
    for node, _ in (left, right):
        require_rows_that_stay([node], "join")
        require_not_late(node, "join")
    if how not in get_args(Kind):
        raise PipelineError(f"join(how): {how!r} is not one of {get_args(Kind)}")
    if isinstance(max_pairs, bool) or not isinstance(max_pairs, int) or max_pairs < 1:
        raise PipelineError(f"join(max_pairs): {max_pairs!r} is not a positive integer")
    bounds = _bounds(left.node, within, max_within, keep)
    lateness_ms = duration_ms(allowed_lateness, "join(allowed_lateness)")
    if lateness_ms < 0:
        raise PipelineError(f"join(allowed_lateness): {allowed_lateness!r} is negative")
    on_close = _is_on_close(trigger) and lateness_ms > 0
    left_shown, right_shown = _shown(left, right, suffix)
    key = {name: left.node.columns[name] for name in left.key}
    left_types = {name: left.node.columns[column] for column, name in left_shown.items()}
    right_types = {name: right.node.columns[column] for column, name in right_shown.items()}
    if on is not None:
        _require_condition(on, {**key, **left_types, **right_types})
    if how in ("semi", "anti"):
        named = [] if on is None else on.meta.root_names()
        right_shown = {column: name for column, name in right_shown.items() if name in named}
        right_types = {}
    columns = {**key, **left_types, **right_types}
    for name in (*row_fields(by_id=True), *[REVISION] * on_close):
        if name in columns:
            raise PipelineError(
                f"join: column {name!r} clashes with a field of every row; rename or drop it with "
                "select() before key_by()"
            )
    stage = JoinStage(
        (left, right),
        (left_shown, right_shown),
        how,
        bounds.lower_ms,
        bounds.upper_ms,
        lateness_ms,
        on_close,
        on,
        bounds.upper,
        max_pairs,
        bounds.relation,
    )
    return JoinedStream(left_stream.dataflow, Node(columns, stage=stage), stage)


def _inputs(first: KeyedStream, second: object) -> tuple[KeyedNode, KeyedNode]:
    """Return the sides of a join, which have the same key."""
    if not isinstance(second, KeyedStream):
        hint = "; call key_by() on it" if isinstance(second, Stream) else ""
        raise PipelineError(f"join: {as_written(second)} is not a keyed stream{hint}")
    if first.dataflow is not second.dataflow:
        raise PipelineError(
            f"join: the streams belong to two pipelines, {first.dataflow.name!r} and "
            f"{second.dataflow.name!r}"
        )
    left, right = KeyedNode(first.node, first.key), KeyedNode(second.node, second.key)
    if ALL in (*left.key, *right.key):
        raise PipelineError("join: key_by() has no column; name those that both streams have")
    if left.key != right.key:
        names = zip(left.key, right.key, strict=False)
        renamed = ", ".join(n if n == other else f"{n}={other!r}" for n, other in names)
        hint = f"; key_by({renamed}) renames" if len(left.key) == len(right.key) else ""
        raise PipelineError(
            f"join: the key of the left stream is {', '.join(left.key)}, that of the right one "
            f"{', '.join(right.key)}; both must have the same names in the same order{hint}"
        )
    for name in left.key:
        mine, other = left.node.columns[name], right.node.columns[name]
        if mine != other:
            raise PipelineError(
                f"join: key column {name!r} is {mine} in the left stream and {other} in the right "
                "one; cast one of them before key_by(), with with_columns()"
            )
    return left, right


def _bounds(
    left: Node, within: Within | None, max_within: Duration | None, keep: Duration | None
) -> _Bounds:
    if (within is None) == (keep is None):
        raise PipelineError(
            'join: pass one of within="10m", within=("-10m", "1h") or keep="1d"; it says how long '
            "a row waits for the rows of the other stream"
        )
    upper = within[1] if isinstance(within, tuple) and len(within) == 2 else None
    by_row = isinstance(upper, pl.Expr)
    if by_row != (max_within is not None):
        raise PipelineError(
            "join(max_within): the upper bound of within is an expression and has no greatest "
            'value; add one, such as max_within="1h"'
            if by_row
            else "join(max_within): it is the greatest value of an expression in within; leave it "
            "out"
        )
    lower = within[0] if isinstance(within, tuple) and within else within
    if isinstance(lower, pl.Expr):
        text = as_written(lower)
        raise PipelineError(
            f"join(within): {text} is an expression, which only an upper bound may be; write "
            f"('0s', {text}) with max_within"
        )
    if keep is not None:
        kept_ms = _not_too_long(positive_ms(keep, "join(keep)"))
        return _Bounds(-kept_ms, kept_ms, None, "keep")
    if not isinstance(within, tuple):
        assert within is not None
        both_ms = duration_ms(within, "join(within)")
        if both_ms < 0:
            raise PipelineError(f"join(within): {within!r} is negative; write ({within!r}, '0s')")
        return _Bounds(-_not_too_long(both_ms), both_ms, None, "time")
    if len(within) != 2:
        raise PipelineError(f"join(within): {within!r} has not two bounds, such as ('-10m', '1h')")
    lower_ms = _not_too_long(duration_ms(within[0], "join(within)"))
    if isinstance(upper, pl.Expr):
        assert max_within is not None
        upper_ms = duration_ms(max_within, "join(max_within)")
        bound: pl.Expr | None = _upper(upper, left)
    else:
        assert upper is not None
        upper_ms, bound = duration_ms(upper, "join(within)"), None
    if upper_ms < lower_ms:
        raise PipelineError(
            f"join(within): the upper bound {duration_text(upper_ms)} is below the lower bound "
            f"{duration_text(lower_ms)}"
        )
    return _Bounds(lower_ms, _not_too_long(upper_ms), bound, "time")


def _not_too_long(ms: int) -> int:
    if abs(ms) > LONGEST_WINDOW_MS:
        raise PipelineError(
            f"join: {duration_text(ms)} is longer than {LONGEST_WINDOW_MS // 86_400_000:,} days"
        )
    return ms


def _upper(expression: pl.Expr, left: Node) -> pl.Expr:
    """Return the upper bound of each left row in ms."""
    what = f"join(within={expression_text(expression)})"
    types = list(_types(expression, left.columns, what).values())
    if len(types) == 1 and isinstance(types[0], pl.Duration):
        return expression.dt.total_milliseconds()
    if types != [pl.Int64()]:
        found = ", ".join(map(str, types))
        raise PipelineError(
            f"{what}: the bound is {found}; it must be the difference of two times, or an Int64 of "
            "milliseconds"
        )
    return expression


def _require_condition(on: pl.Expr, columns: Mapping[str, pl.DataType]) -> None:
    what = f"join(on={as_written(on)})"
    types = list(_types(require_expression(on, "join(on)"), columns, what).values())
    if types != [pl.Boolean()]:
        raise PipelineError(f"{what}: it gives {', '.join(map(str, types))}, not one Boolean")


def _types(
    expression: pl.Expr, columns: Mapping[str, pl.DataType], what: str
) -> Mapping[str, pl.DataType]:
    """Return the type of an expression over the columns of rows of a log."""
    for name in metadata_used([expression]):
        raise PipelineError(
            f"{what}: column {name!r} is of a Kafka record, and rows of a join do not have it; "
            "add it with with_columns() before key_by()"
        )
    types = output_types([expression], columns, what)
    if expression.meta.has_multiple_outputs():  # state holds only columns that are named
        raise PipelineError(f"{what}: it does not name its columns; name each of them")
    require_row_wise(expression, columns, what)
    require_no_failure(expression, columns, what)
    return types


def _is_on_close(trigger: Trigger | None) -> bool:
    if trigger is None or isinstance(trigger, OnFinal):
        return False
    if isinstance(trigger, OnClose) and trigger == OnClose():
        return True
    raise PipelineError(
        f"join(trigger): {as_written(trigger)} is not one of on_final() and on_close(); rows of a "
        "join have no other time"
    )


def _shown(left: KeyedNode, right: KeyedNode, suffix: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names in results of the columns of each side, without the key."""
    if not isinstance(suffix, str) or not suffix:
        raise PipelineError(f"join(suffix): {suffix!r} is not a text to add to names")
    mine = {name: name for name in shown_columns(left.node.columns) if name not in left.key}
    taken = {*left.key, *mine}
    theirs: dict[str, str] = {}
    for column in shown_columns(right.node.columns):
        if column in right.key:
            continue
        name = f"{column}{suffix}" if column in taken else column
        if name in taken or (name != column and name in right.node.columns):
            raise PipelineError(
                f"join(suffix): both streams have a column {column!r}, and {name!r} is taken too; "
                "pass another suffix"
            )
        theirs[column] = name
    require_new_columns(list(theirs.values()), "join(suffix)")
    return mine, theirs
