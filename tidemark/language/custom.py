"""Aggregates that users write: ``custom(...)`` and ``apply_frame(...)``."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import polars as pl

from tidemark.core.aggregates.aggregate import AggregateFunction
from tidemark.core.aggregates.custom import Aggregate, Custom, FrameFunction, OnError
from tidemark.core.aggregates.filtered import filtered
from tidemark.core.rows.expression import as_written
from tidemark.errors import PipelineError
from tidemark.plan.names import column_types

_CLASS = type


def custom(
    aggregate: Aggregate,
    columns: str | Sequence[str],
    type: Any,  # noqa: A002
    *,
    on_error: OnError = "dead_letter",
    where: pl.Expr | None = None,
) -> AggregateFunction:
    """Use an aggregate written in Python: ``init``, ``add``, ``merge`` and ``result``.

    ``columns``: the columns of the rows that ``add`` gets.  ``type``: of the result, one of str,
    int, float, bool or a list of one.  It is slow: a Python call per row.  The result must not
    depend on the order of rows; that is tried when the pipeline is built.

    ``on_error``: a row on which ``add`` raises becomes a dead letter, and so does a pane on which
    ``merge`` or ``result`` raises.  With ``"stop"`` the service ends with status 2 instead.
    """
    if isinstance(aggregate, _CLASS) or not isinstance(aggregate, Aggregate):
        raise PipelineError(
            f"custom: {as_written(aggregate)} is not an object with the methods init, add, "
            "merge and result"
        )
    function = Custom(
        _names(columns, "custom"),
        _type(type, "custom"),
        aggregate,
        on_error=_on_error(on_error, "custom"),
    )
    return filtered(function, where)


def apply_frame(
    function: Callable[[pl.DataFrame], Any],
    columns: str | Sequence[str],
    type: Any,  # noqa: A002
    *,
    on_error: OnError = "dead_letter",
    where: pl.Expr | None = None,
) -> AggregateFunction:
    """Call a function with a polars frame of a window's rows, in order of event time.

    Ties are ordered by source, offset and position in the record.  The ``columns`` of every row
    are kept until the window is dropped.  The function is called for every pane.

    ``on_error``: a pane on which the function raises becomes a dead letter; with ``"stop"`` the
    service ends with status 2 instead.
    """
    if not callable(function):
        raise PipelineError(f"apply_frame: {function!r} is not a function")
    made = FrameFunction(
        _names(columns, "apply_frame"),
        _type(type, "apply_frame"),
        function,
        on_error=_on_error(on_error, "apply_frame"),
    )
    return filtered(made, where)


def _names(columns: str | Sequence[str], what: str) -> tuple[str, ...]:
    names = (columns,) if isinstance(columns, str) else columns
    listed = isinstance(names, Sequence) and len(names) > 0
    if not listed or not all(isinstance(name, str) for name in names):
        raise PipelineError(f"{what}(columns): {columns!r} is not a list of column names")
    return tuple(names)


def _type(kind: Any, what: str) -> pl.DataType:
    return column_types({"result": kind}, f"{what}(type)")["result"]


def _on_error(value: object, what: str) -> OnError:
    for choice in get_args(OnError):
        if value == choice:
            found: OnError = choice
            return found
    raise PipelineError(f"{what}(on_error): {value!r} is not one of {get_args(OnError)}")
