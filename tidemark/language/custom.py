"""Aggregates that users write: ``custom(...)`` and ``apply_frame(...)``."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from tidemark.core.aggregates.aggregate import AggregateFunction
from tidemark.core.aggregates.custom import Aggregate, Custom, FrameFunction
from tidemark.core.rows.expression import as_written
from tidemark.errors import PipelineError
from tidemark.plan.names import column_types

_CLASS = type


def custom(aggregate: Aggregate, columns: str | Sequence[str], type: Any) -> AggregateFunction:  # noqa: A002
    """Use an aggregate written in Python: ``init``, ``add``, ``merge`` and ``result``.

    ``columns``: the columns of the rows that ``add`` gets.  ``type``: of the result, one of str,
    int, float, bool or a list of one.  It is slow: a Python call per row.  The result must not
    depend on the order of rows; that is tried when the pipeline is built.
    """
    if isinstance(aggregate, _CLASS) or not isinstance(aggregate, Aggregate):
        raise PipelineError(
            f"custom: {as_written(aggregate)} is not an object with the methods init, add, "
            "merge and result"
        )
    return Custom(_names(columns, "custom"), _type(type, "custom"), aggregate)


def apply_frame(
    function: Callable[[pl.DataFrame], Any],
    columns: str | Sequence[str],
    type: Any,  # noqa: A002
) -> AggregateFunction:
    """Call a function with a polars frame of a window's rows, in order of event time.

    Ties are ordered by source, offset and position in the record.  The ``columns`` of every row
    are kept until the window is dropped.  The function is called for every pane.
    """
    if not callable(function):
        raise PipelineError(f"apply_frame: {function!r} is not a function")
    return FrameFunction(_names(columns, "apply_frame"), _type(type, "apply_frame"), function)


def _names(columns: str | Sequence[str], what: str) -> tuple[str, ...]:
    names = (columns,) if isinstance(columns, str) else columns
    listed = isinstance(names, Sequence) and len(names) > 0
    if not listed or not all(isinstance(name, str) for name in names):
        raise PipelineError(f"{what}(columns): {columns!r} is not a list of column names")
    return tuple(names)


def _type(kind: Any, what: str) -> pl.DataType:
    return column_types({"result": kind}, f"{what}(type)")["result"]
