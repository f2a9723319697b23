"""Joins with tables with drawn settings; the topics of drawn logs are rows, versions, or both."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast
from unittest.mock import patch

import polars as pl
from hypothesis import strategies as st

from tests.oracles.table_join import Spec
from tests.oracles.versions import TableSpec
from tests.support.logs import COLUMNS
from tidemark.core.operators.joins import versions
from tidemark.core.operators.joins.side import Side
from tidemark.core.operators.joins.table_join import TableJoin, TableKind, Wait
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import Input
from tidemark.core.time.segment import Segment

LEFT = Side("left", COLUMNS, {"value": "value"})
RIGHT = Side("right", COLUMNS, {"value": "value_right"})

_SIDES = ((("t",), ("u",)), (("u",), ("t",)), (("t",), ("t", "u")), (("t", "u"), ("t",)))


def _is_deleted(value: int | None) -> bool:
    return value is not None and value % 3 == 0


def deleted_rows(spec: TableSpec) -> pl.Expr | None:
    """Return the condition that makes a row a tombstone, or None if no row is one."""
    return pl.col("value") % 3 == 0 if spec.deleted is _is_deleted else None


@st.composite
def table_specs(draw: st.DrawFn, hows: Sequence[str], waits: Sequence[str]) -> TableSpec:
    """Draw the settings that all joins with tables have."""
    left, right = draw(st.sampled_from(_SIDES))
    return TableSpec(
        left,
        right,
        draw(st.sampled_from(hows)),
        draw(st.sampled_from((0, 3, 10, 1_000))),
        draw(st.sampled_from((0, 2, 10, 50))),
        draw(st.sampled_from(waits)),
        _is_deleted if draw(st.booleans()) else lambda _: False,
    )


@st.composite
def specs(draw: st.DrawFn, waits: Sequence[str] = ("event_time", "arrival")) -> Spec:
    """Draw settings."""
    shared = draw(table_specs(("inner", "left"), waits))
    return Spec(**vars(shared), on_close=draw(st.booleans()))


def operator(spec: Spec) -> Operator:
    """Return the operator that does what the oracle does."""
    body = TableJoin(
        ("key",),
        LEFT,
        RIGHT,
        cast(TableKind, spec.how),
        spec.keep_ms,
        spec.lateness_ms,
        cast(Wait, spec.wait),
        spec.on_close,
        deleted_rows(spec),
    )
    sides = ((spec.left, "left"), (spec.right, "right"))
    inputs = (Input(topics, ("key",), COLUMNS, frozenset(topics), name) for topics, name in sides)
    return Operator("joined", tuple(inputs), body, horizon_ms=spec.lateness_ms + 1)


@contextmanager
def small_runs() -> Iterator[None]:
    """Merge runs, and drop versions, from the first ones on; merge small parts."""
    with (
        patch.object(versions, "_FEW", 2),
        patch.object(versions, "_PIECE_ROWS", 2),
        patch.object(versions, "_FRAMES", 1),
    ):
        yield


def of_partition(segment: Segment, number: int, count: int) -> Segment:
    """Return a segment with the rows of one of several partitions only."""
    key = pl.col("key").fill_null("d").replace_strict({"a": 0, "b": 1, "c": 2, "d": 3})
    streams = {name: frame.filter(key % count == number) for name, frame in segment.streams.items()}
    return replace(segment, streams=streams)
