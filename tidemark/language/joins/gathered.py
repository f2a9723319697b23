"""Joins that give one row for each left row: the first of its partners, or aggregates of them."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from tidemark.core.aggregates.aggregate import AggregateFunction, Aggregation
from tidemark.core.aggregates.lists import is_scalar
from tidemark.core.operators.joins.gathering_join import First
from tidemark.core.rows.expression import as_written, require_column, require_expression
from tidemark.errors import PipelineError
from tidemark.language.joins.sides import types_of
from tidemark.language.windowed import require_aggregates
from tidemark.plan.broadcast_stage import BroadcastStage
from tidemark.plan.logical import AnyJoinStage, JoinStage, Node, TableStage


def first_of(columns: Mapping[str, pl.DataType], stage: AnyJoinStage, by: object) -> Node:
    """Return the rows of ``JoinedStream.first``; ``columns``: of the join."""
    plain = _plain(stage, "first")
    if by is None:
        return Node(columns, stage=replace(plain, gathering=First()))
    if isinstance(by, str):
        require_column(by, columns, "first(by)")
        by = pl.col(by)
    what = f"first(by={as_written(by)})"
    expression = require_expression(by, "first(by)")
    types = types_of(expression, columns, what)
    if len(types) != 1 or not is_scalar(types[0]):
        found = ", ".join(map(str, types))
        raise PipelineError(
            f"{what}: it gives {found}; it must be one number, string, Boolean or time"
        )
    return Node(columns, stage=replace(plain, gathering=First(expression)))


def aggregated_partners(
    columns: Mapping[str, pl.DataType],
    stage: AnyJoinStage,
    aggregates: Mapping[str, AggregateFunction],
) -> Node:
    """Return the rows of ``JoinedStream.aggregate``; ``columns``: of the join."""
    plain = _plain(stage, "aggregate")
    require_aggregates(aggregates, plain.key)
    own = [name for name in columns if name not in plain.shown[1].values()]
    for name in aggregates:
        if name in own:
            raise PipelineError(f"aggregate({name}): the left stream has a column of this name")
    aggregation = Aggregation(aggregates, columns)
    for name in aggregation.user_functions:
        raise PipelineError(
            f"aggregate({name}): an aggregate of your own needs windows; use collect() here, and "
            "apply() on its result"
        )
    if aggregation.by_arrival:
        raise PipelineError(
            'aggregate: the partners of a row are in order of event time; leave out order="arrival"'
        )
    kept = {name: columns[name] for name in own}
    stage = replace(plain, gathering=aggregation)
    return Node({**kept, **aggregation.types}, stage=stage)


def _plain(stage: AnyJoinStage, what: str) -> JoinStage:
    """Return the stage of a join whose left rows may gather their partners."""
    if isinstance(stage, BroadcastStage):
        raise PipelineError(
            f"{what}: a join with a broadcast table has no such method; give its results a window, "
            "or write key_by() and aggregate() for them"
        )
    if isinstance(stage, TableStage):
        raise PipelineError(f"{what}: a join with a table gives one row for each left row already")
    if stage.gathering is not None:
        raise PipelineError(f"{what}: the join gives one row for each left row already")
    if stage.windows is not None:
        raise PipelineError(
            f"{what}: a join in windows has no such method; aggregate its rows, with key_by(), "
            "window() and aggregate(), or join rows by their distance, with within="
        )
    if stage.how not in ("inner", "left"):
        raise PipelineError(
            f"{what}: it takes a join with how='inner' or 'left', and this one has {stage.how!r}"
        )
    if stage.on_close:
        raise PipelineError(
            f"{what}: a left row is published once, when no partner can come; leave out "
            "trigger=on_close()"
        )
    return stage
