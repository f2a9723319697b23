"""The two sides of a join: their keys, columns and expressions, as users give them."""

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.ports import ALL, shown_columns
from tidemark.core.rows.expression import as_written, require_expression
from tidemark.core.rows.log_rows import types_on_log
from tidemark.core.rows.probe import require_no_failure
from tidemark.core.time.duration import Duration, duration_ms
from tidemark.core.windows.trigger import OnClose, OnFinal, Trigger
from tidemark.errors import PipelineError
from tidemark.language.keyed import KeyedStream
from tidemark.language.stream import Stream
from tidemark.plan.logical import KeyedNode
from tidemark.plan.names import require_new_columns
from tidemark.plan.operators.late import require_not_late
from tidemark.plan.operators.replacing import require_rows_that_stay


def sides_of(first: KeyedStream, second: object) -> tuple[KeyedNode, KeyedNode]:
    """Return the sides of a join: streams with one key, without rows of updates() or late rows."""
    left, right = two_sides(first, second)
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


def two_sides(first: KeyedStream, second: object) -> tuple[KeyedNode, KeyedNode]:
    """Return the sides of a join, not rows of updates() or late rows; their keys may differ."""
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
    for each in (left, right):
        require_rows_that_stay([each.node], "join")
        require_not_late(each.node, "join")
    return left, right


class Results(NamedTuple):
    """What rows of a join show.

    ``shown``: the names of the columns of each side, without the key.  A semi or anti join shows no
    right column, and names those that its condition needs.  ``columns``: of results, with types.
    """

    shown: tuple[dict[str, str], dict[str, str]]
    columns: dict[str, pl.DataType]


def results_of(
    left: KeyedNode,
    right: KeyedNode,
    suffix: str,
    how: Kind,
    on: pl.Expr | None = None,
    *,
    with_right_key: bool = False,
) -> Results:
    """Return what rows of a join show.

    Raises:
        PipelineError: a name is taken, or the condition ``on`` is not one Boolean of a pair.
    """
    left_shown, right_shown = _shown_of(left, right, suffix, with_right_key=with_right_key)
    of_left = {name: left.node.columns[name] for name in left.key}
    of_left |= {name: left.node.columns[column] for column, name in left_shown.items()}
    of_right = {name: right.node.columns[column] for column, name in right_shown.items()}
    if on is not None:
        require_condition(on, of_left | of_right)
    if how in ("semi", "anti"):
        named = [] if on is None else on.meta.root_names()
        right_shown = {column: name for column, name in right_shown.items() if name in named}
        of_right = {}
    return Results((left_shown, right_shown), of_left | of_right)


def _shown_of(
    left: KeyedNode, right: KeyedNode, suffix: str, *, with_right_key: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names in results of the columns of each side, without the key that both have."""
    if not isinstance(suffix, str) or not suffix:
        raise PipelineError(f"join(suffix): {suffix!r} is not a text to add to names")
    mine = {name: name for name in shown_columns(left.node.columns) if name not in left.key}
    taken = {*left.key, *mine}
    theirs: dict[str, str] = {}
    for column in shown_columns(right.node.columns):
        if column in right.key and not with_right_key:
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


def require_no_options(options: Mapping[str, object]) -> None:
    """Raise PipelineError if a join with a table has an option of other joins; None: it has not."""
    for name, value in options.items():
        if value is not None:
            raise PipelineError(
                f"join({name}): a join with a table has no such option; leave it out"
            )


def require_condition(
    on: pl.Expr, columns: Mapping[str, pl.DataType], option: str = "join(on"
) -> None:
    """Raise PipelineError if an expression is not one Boolean; ``option``: how errors begin."""
    what = f"{option}={as_written(on)})"
    types = types_of(require_expression(on, f"{option})"), columns, what)
    if types != [pl.Boolean()]:
        raise PipelineError(f"{what}: it gives {', '.join(map(str, types))}, not one Boolean")


def types_of(
    expression: pl.Expr, columns: Mapping[str, pl.DataType], what: str
) -> list[pl.DataType]:
    """Return the types of an expression of a join, which fails on no row."""
    types = types_on_log(expression, columns, what, "a join")
    require_no_failure(expression, columns, what)
    return types


def lateness_of(allowed_lateness: Duration) -> int:
    """Return the allowed lateness in ms."""
    lateness_ms = duration_ms(allowed_lateness, "join(allowed_lateness)")
    if lateness_ms < 0:
        raise PipelineError(f"join(allowed_lateness): {allowed_lateness!r} is negative")
    return lateness_ms


def is_on_close(trigger: Trigger | None) -> bool:
    """Return whether results are published before they are final."""
    if trigger is None or isinstance(trigger, OnFinal):
        return False
    if isinstance(trigger, OnClose) and trigger == OnClose():
        return True
    raise PipelineError(
        f"join(trigger): {as_written(trigger)} is not one of on_final() and on_close(); rows of a "
        "join have no other time"
    )
