"""Aggregates that users write in Python, for what columns cannot do.  Slow: one call per row.

``Custom`` folds rows into a state, a JSON value, and merges states; a partial holds one state.
``FrameFunction`` keeps all rows and calls a function with a frame of them.  See
docs/semantics.md, "Custom aggregates".

The order in which rows are added and states are merged is not defined.  A result that depends on
that order would depend on the cuts.  So an aggregate is tried on probe rows when the pipeline is
built, as stateless operators are (``core/rows/probe.py``).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import polars as pl

from tidemark.core.aggregates.aggregate import Columns
from tidemark.core.aggregates.basic import order_columns
from tidemark.core.aggregates.lists import concatenated, in_row_order, single_item_lists
from tidemark.core.rows.expression import first_line, require_column
from tidemark.core.rows.probe import probe_frame
from tidemark.core.rows.python_value import conform
from tidemark.errors import PipelineError

RowValues = dict[str, Any]

_VALUE = "value"
_CHUNK = 6
"""Number of probe rows that are folded together."""


@runtime_checkable
class Aggregate(Protocol):
    """An aggregate in Python.  A state is a JSON value; ``add`` and ``merge`` return a new state.

    The result must not depend on the order of rows, nor on how rows are grouped into states.
    """

    def init(self) -> Any:
        """Return the state of zero rows."""

    def add(self, state: Any, row: RowValues, /) -> Any:
        """Return the state with one more row, a dict of columns."""

    def merge(self, state: Any, other: Any, /) -> Any:
        """Return the state of two sets of rows together."""

    def result(self, state: Any, /) -> Any:
        """Return the value for a pane; None means null."""


@dataclass(frozen=True)
class _PythonFunction:
    """Base of both kinds: the columns they see, and the type of their value."""

    of_columns: tuple[str, ...]
    value_type: pl.DataType

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the declared type.

        Raises:
            PipelineError: a column is not in the stream.
        """
        for column in self.of_columns:
            require_column(column, columns, f"{name}={self}")
        return self.value_type

    def _column(self, name: str, values: Iterable[Any]) -> pl.Series:
        types = {_VALUE: self.value_type}
        checked = [
            self._called(name, "result", partial(conform, {_VALUE: value}, types))[0]
            for value in values
        ]
        return pl.Series(name, checked, self.value_type)

    def _called(self, name: str, what: str, call: Callable[[], Any]) -> Any:
        """Call a user's function; name it in a PipelineError if it raises."""
        try:
            return call()
        except Exception as error:  # whatever a user's function may raise
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise PipelineError(f"{name}={self}: {what}: {reason}") from error


@dataclass(frozen=True)
class Custom(_PythonFunction):
    """A user's aggregate.  Parts, both lists: ``rows`` not yet added, and ``states`` as JSON."""

    aggregate: Aggregate

    def __str__(self) -> str:
        return f"custom({type(self.aggregate).__name__})"

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the declared type; try the aggregate on probe rows.

        Raises:
            PipelineError: a column is not in the stream, or the result depends on order.
        """
        declared = super().type(name, columns)
        self._require_orderless(name, {column: columns[column] for column in self.of_columns})
        return declared

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each row as a list of one, and no states."""
        row = rows.select(self.of_columns).to_struct()
        states = pl.Series([None] * rows.height, dtype=pl.String)
        return [single_item_lists(row, f"{name}.rows"), single_item_lists(states, f"{name}.states")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.rows"), concatenated(f"{name}.states")]

    def compact(self, name: str, partials: pl.DataFrame) -> list[pl.Series]:
        """Add the rows and merge the states, so that one state is left."""
        states = [[text] for text in self._states(name, partials)]
        rows = partials[f"{name}.rows"]
        return [
            pl.Series(f"{name}.states", states, pl.List(pl.String)),
            pl.Series(rows.name, [[] for _ in states], rows.dtype),
        ]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the result of each state."""
        return self._column(
            name, (self._result(name, text) for text in self._states(name, partials))
        )

    def _states(self, name: str, partials: pl.DataFrame) -> Iterator[str]:
        lists = partials.select(f"{name}.rows", f"{name}.states").iter_rows()
        return (self._folded(name, rows or (), states or ()) for rows, states in lists)

    def _folded(self, name: str, rows: Sequence[RowValues], states: Sequence[str]) -> str:
        if len(states) == 1 and not rows:
            return states[0]
        fold = partial(_fold, self.aggregate, rows, states)
        return str(self._called(name, "add, merge", fold))

    def _result(self, name: str, state: str) -> Any:
        return self._called(name, "result", lambda: self.aggregate.result(json.loads(state)))

    def _require_orderless(self, name: str, columns: Columns) -> None:
        """Raise PipelineError if the result depends on the order or grouping of probe rows."""
        for nulls in (False, True):
            rows = self._good(name, probe_frame(columns, nulls=nulls).rows(named=True))
            for start in range(0, len(rows), _CHUNK):
                chunk = rows[start : start + _CHUNK]
                results = [self._result(name, state) for state in self._all_orders(chunk)]
                if len(set(map(repr, results))) > 1:
                    raise PipelineError(
                        f"{name}={self}: the result depends on the order of rows or on how they "
                        f"are grouped: {results[0]!r:.60} or {results[-1]!r:.60}; make add and "
                        "merge exact, or use apply_frame(), which sees the rows in order"
                    )

    def _good(self, name: str, rows: Sequence[RowValues]) -> list[RowValues]:
        """Return the rows that the aggregate accepts alone; raise if it accepts no row."""
        good = [row for row in rows if _takes(self.aggregate, row)]
        if not good:
            self._result(name, self._folded(name, rows[:1], []))
        return good

    def _all_orders(self, rows: list[RowValues]) -> Iterator[str]:
        """Yield states of the same rows: in order, reversed, as two halves, and one by one."""
        half = len(rows) // 2
        alone = [_fold(self.aggregate, [row], []) for row in rows]
        parts = [_fold(self.aggregate, part, []) for part in (rows[:half], rows[half:])]
        yield _fold(self.aggregate, rows, [])
        yield _fold(self.aggregate, rows[::-1], [])
        yield _fold(self.aggregate, [], parts)
        yield _fold(self.aggregate, [], parts[::-1])
        yield _fold(self.aggregate, [], alone)
        yield _fold(self.aggregate, [], alone[::-1])


def _fold(aggregate: Aggregate, rows: Sequence[RowValues], states: Sequence[str]) -> str:
    """Merge the states, add the rows, and return the state as JSON."""
    merged = json.loads(states[0]) if states else aggregate.init()
    for text in states[1:]:
        merged = aggregate.merge(merged, json.loads(text))
    for row in rows:
        merged = aggregate.add(merged, dict(row))
    return json.dumps(merged)


def _takes(aggregate: Aggregate, row: RowValues) -> bool:
    try:
        aggregate.result(json.loads(_fold(aggregate, [row], [])))
    except Exception:  # noqa: BLE001 - whatever a user's function may raise
        return False
    return True


@dataclass(frozen=True)
class FrameFunction(_PythonFunction):
    """A function of the frame of a window's rows.  Part: ``rows``, structs of order and row."""

    function: Callable[[pl.DataFrame], Any]

    def __str__(self) -> str:
        return f"apply_frame({getattr(self.function, '__name__', 'function')})"

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each row with the fields that order it, as a list of one."""
        row = rows.select(self.of_columns).to_struct("row")
        return [
            single_item_lists(order_columns(rows).with_columns(row).to_struct(), f"{name}.rows")
        ]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.rows")]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Call the function with the rows of each pane, ordered by event time, source, offset."""
        lists = partials[f"{name}.rows"]
        _, ordered = in_row_order(lists)
        rows = ordered["row"].struct.unnest()
        lengths = lists.list.len().fill_null(0).to_list()
        return self._column(name, self._results(name, rows, lengths))

    def _results(self, name: str, rows: pl.DataFrame, lengths: Iterable[int]) -> Iterator[Any]:
        start = 0
        for length in lengths:
            frame = rows[start : start + length]
            yield self._called(name, "function", partial(self.function, frame))
            start += length
