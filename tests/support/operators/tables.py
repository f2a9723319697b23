"""Joins with tables with drawn settings; the topics of drawn logs are rows, versions, or both."""

from collections.abc import Sequence
from typing import cast

import polars as pl
from hypothesis import strategies as st

from tests.oracles.table_join import Spec
from tests.support.logs import COLUMNS
from tidemark.core.operators.joins.side import Side
from tidemark.core.operators.joins.table_join import TableJoin, TableKind, Wait
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import Input

LEFT = Side("left", COLUMNS, {"value": "value"})
RIGHT = Side("right", COLUMNS, {"value": "value_right"})

_SIDES = ((("t",), ("u",)), (("u",), ("t",)), (("t",), ("t", "u")), (("t", "u"), ("t",)))


def _is_deleted(value: int | None) -> bool:
    return value is not None and value % 3 == 0


@st.composite
def specs(draw: st.DrawFn, waits: Sequence[str] = ("event_time", "arrival")) -> Spec:
    """Draw settings."""
    left, right = draw(st.sampled_from(_SIDES))
    return Spec(
        left,
        right,
        draw(st.sampled_from(("inner", "left"))),
        draw(st.sampled_from((0, 3, 10, 1_000))),
        draw(st.sampled_from((0, 2, 10, 50))),
        draw(st.sampled_from(waits)),
        draw(st.booleans()),
        _is_deleted if draw(st.booleans()) else lambda _: False,
    )


def operator(spec: Spec) -> Operator:
    """Return the operator that does what the oracle does."""
    deleted = pl.col("value") % 3 == 0 if spec.deleted is _is_deleted else None
    body = TableJoin(
        ("key",),
        LEFT,
        RIGHT,
        cast(TableKind, spec.how),
        spec.keep_ms,
        spec.lateness_ms,
        cast(Wait, spec.wait),
        spec.on_close,
        deleted,
    )
    sides = ((spec.left, "left"), (spec.right, "right"))
    inputs = (Input(topics, ("key",), COLUMNS, frozenset(topics), name) for topics, name in sides)
    return Operator("joined", tuple(inputs), body, horizon_ms=spec.lateness_ms + 1)
