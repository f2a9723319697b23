"""Joins with broadcast tables with drawn settings; topics are rows, versions, or both."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import polars as pl
from hypothesis import strategies as st

from tests.oracles.broadcast_join import Spec, Values
from tests.support.logs import COLUMNS
from tests.support.operators.tables import deleted_rows, table_specs
from tidemark.core.operators.joins.broadcast.operator import BroadcastJoin
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.table_join import Wait
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import Input
from tidemark.core.rows.copies import COPY

LEFT = Side("left", COLUMNS, {"value": "value"})
RIGHT = Side("right", COLUMNS, {"key": "key_right", "value": "value_right"})


def _over(row: Values, version: Values) -> bool | None:
    return None if row[1] is None or version[1] is None else row[1] >= version[1]


def _equal(row: Values, version: Values) -> bool | None:
    return None if row[1] is None or version[1] is None else row[1] == version[1]


def _own(row: Values, version: Values) -> bool | None:
    return row[0] is not None and row[0] == version[0] and _over(row, version)


CONDITIONS: Mapping[str, tuple[pl.Expr | None, Callable[[Values, Values], bool | None]]] = {
    "all": (None, lambda row, version: True),
    "over": (pl.col("value") >= pl.col("value_right"), _over),
    "equal": (pl.col("value_right") == pl.col("value"), _equal),
    "own": (
        (pl.col("value") >= pl.col("value_right")) & (pl.col("key") == pl.col("key_right")),
        _own,
    ),
}


@st.composite
def specs(draw: st.DrawFn, waits: Sequence[str] = ("event_time", "arrival")) -> Spec:
    """Draw settings."""
    shared = draw(table_specs(("inner", "left", "semi", "anti"), waits))
    condition = draw(st.sampled_from([*CONDITIONS]))
    return Spec(
        **vars(shared),
        condition=condition,
        on=CONDITIONS[condition][1],
        max_pairs=draw(st.sampled_from((1, 2, 1_000_000))),
    )


def operator(spec: Spec, *, copied: bool = False) -> Operator:
    """Return the operator that does what the oracle does.

    ``copied``: it reads copies, in streams with names that end in ``#2``.
    """
    body = BroadcastJoin(
        ("key",),
        ("key",),
        LEFT,
        RIGHT,
        cast(Kind, spec.how),
        spec.keep_ms,
        CONDITIONS[spec.condition][0],
        spec.lateness_ms,
        cast(Wait, spec.wait),
        deleted_rows(spec),
        max_pairs=spec.max_pairs,
        operator="joined",
    )
    streams = tuple(f"{topic}#2" for topic in spec.right) if copied else spec.right
    columns: dict[str, Any] = {**COLUMNS, **({COPY: pl.Boolean()} if copied else {})}
    inputs = (
        Input(spec.left, ("key",), COLUMNS, frozenset(spec.left), "left"),
        Input(streams, ("key",), columns, frozenset(spec.right), "right"),
    )
    return Operator("joined", inputs, body, horizon_ms=spec.lateness_ms + 1)
