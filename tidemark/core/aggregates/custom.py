"""Aggregates that users write in Python, for what columns cannot do.  Slow: one call per row.

``Custom`` folds rows into a state, a JSON value, and merges states; a partial holds one state.
``FrameFunction`` keeps all rows and calls a function with a frame of them.  See
docs/semantics.md, "Custom aggregates" and "Failures of user code".

The order in which rows are added and states are merged is not defined.  A result that depends on
that order would depend on the cuts.  So functions are tried on probe rows when the pipeline is
built (custom_probe.py).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Literal, Protocol, runtime_checkable

import polars as pl

from tidemark.core.aggregates.aggregate import KEPT, Columns
from tidemark.core.aggregates.basic import order_columns
from tidemark.core.aggregates.custom_probe import require_orderless, require_working
from tidemark.core.aggregates.lists import (
    concatenated,
    flattened,
    in_row_order,
    single_item_lists,
    structs,
)
from tidemark.core.aggregates.user_call import Failure, attempt
from tidemark.core.rows.expression import require_column
from tidemark.core.rows.python_value import conform

RowValues = dict[str, Any]

OnError = Literal["dead_letter", "stop"]
"""What follows where a user's function fails: a dead letter, or the end of the service."""

_VALUE = "value"
_BLOCK_ROWS = 4096
"""Rows that are Python objects at a time."""


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
    on_error: OnError = field(default="dead_letter", kw_only=True)

    @property
    def skips_nulls_of(self) -> tuple[str, ...]:
        """None: functions get nulls."""
        return ()

    @property
    def stops(self) -> bool:
        """Whether a failure stops the operator."""
        return self.on_error == "stop"

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the declared type.

        Raises:
            PipelineError: a column is not in the stream.
        """
        for column in self.of_columns:
            require_column(column, columns, f"{name}={self}")
        return self.value_type

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the value of each merged partial; null where the user's code fails."""
        return self.results(name, partials)[0]

    def results(self, name: str, partials: pl.DataFrame) -> tuple[pl.Series, Mapping[int, str]]:
        """Return the value of each merged partial, null where it fails, and reasons by place."""
        raise NotImplementedError

    def _checked(
        self, name: str, values: Iterable[Any | Failure]
    ) -> tuple[pl.Series, Mapping[int, str]]:
        """Return values of the declared type as ``results`` does."""
        found = [self.conformed(value) for value in values]
        faults = {
            at: f"{name}={self}: {value.reason}"
            for at, value in enumerate(found)
            if isinstance(value, Failure)
        }
        kept = [None if isinstance(value, Failure) else value for value in found]
        return pl.Series(name, kept, self.value_type), faults

    def conformed(self, value: Any | Failure) -> Any | Failure:
        """Return a value if it is of the declared type, else why it is not."""
        if isinstance(value, Failure):
            return value
        types = {_VALUE: self.value_type}
        made = attempt("result", partial(conform, {_VALUE: value}, types))
        return made if isinstance(made, Failure) else made[0]


@dataclass(frozen=True)
class Custom(_PythonFunction):
    """A user's aggregate.  Parts, both lists: ``rows`` not yet added, and ``states`` as JSON.

    Rows and states that cannot be folded stay as they are.  So a corrected aggregate can fold them.
    """

    aggregate: Aggregate

    def __str__(self) -> str:
        return f"custom({type(self.aggregate).__name__})"

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the declared type; try the aggregate on probe rows.

        Raises:
            PipelineError: a column is not in the stream, the aggregate cannot work, or its result
                depends on order.
        """
        declared = super().type(name, columns)
        require_orderless(self, name, {column: columns[column] for column in self.of_columns})
        return declared

    def refusals(self, name: str, rows: pl.DataFrame) -> Mapping[int, str]:
        """Return the places of the rows on which ``init`` or ``add`` fails, with reasons.

        A state that is not a JSON value is a failure too: it would fail all panes of its window.
        """
        found: dict[int, str] = {}
        values = rows.select(self.of_columns).to_struct()
        for start in range(0, len(values), _BLOCK_ROWS):
            block = values[start : start + _BLOCK_ROWS].to_list()
            for at, failure in _failures_alone(self.aggregate, block):
                found[start + at] = f"{name}={self}: {failure.reason}"
        return found

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each row as a list of one, and no states."""
        row = _kept(rows, rows.select(self.of_columns))
        states = pl.Series([None] * rows.height, dtype=pl.String)
        return [single_item_lists(row, f"{name}.rows"), single_item_lists(states, f"{name}.states")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.rows"), concatenated(f"{name}.states")]

    def compact(self, name: str, partials: pl.DataFrame) -> list[pl.Series]:
        """Add the rows and merge the states, so that one state is left; keep what fails."""
        rows, before = partials[f"{name}.rows"], partials[f"{name}.states"]
        folded = list(self._states(name, partials))
        failed = pl.Series([isinstance(state, Failure) for state in folded], dtype=pl.Boolean)
        states = pl.Series(
            before.name,
            [[] if isinstance(state, Failure) else [state] for state in folded],
            before.dtype,
        )
        added = pl.Series(rows.name, [[] for _ in folded], rows.dtype)
        if not failed.any():
            return [states, added]
        return [before.zip_with(failed, states), rows.zip_with(failed, added)]

    def results(self, name: str, partials: pl.DataFrame) -> tuple[pl.Series, Mapping[int, str]]:
        """Return the result of each state."""
        return self._checked(name, map(self.result, self._states(name, partials)))

    def _states(self, name: str, partials: pl.DataFrame) -> Iterator[str | Failure]:
        """Yield the state of each partial as JSON, or why it cannot be folded."""
        lists = partials[f"{name}.rows"]
        _, flat = flattened(lists)
        rows = _row_dicts(flat)
        lengths = lists.list.len().fill_null(0).to_list()
        for length, states in zip(lengths, partials[f"{name}.states"].to_list(), strict=True):
            yield self.folded(list(islice(rows, length)), states or ())

    def folded(self, rows: Sequence[RowValues], states: Sequence[str]) -> str | Failure:
        """Return one state of rows and states, or what the aggregate raised."""
        if len(states) == 1 and not rows:
            return states[0]
        fold: str | Failure = attempt("add, merge", partial(fold_of, self.aggregate, rows, states))
        return fold

    def result(self, state: str | Failure) -> Any | Failure:
        """Return the result of a state, or what the aggregate raised."""
        if isinstance(state, Failure):
            return state
        return attempt("result", lambda: self.aggregate.result(json.loads(state)))


def _kept(rows: pl.DataFrame, fields: pl.DataFrame) -> pl.Series:
    """Return fields of rows as structs; null for rows that ``where`` takes out."""
    return structs(fields, rows[KEPT]) if KEPT in rows.columns else fields.to_struct()


def _row_dicts(rows: pl.Series) -> Iterator[RowValues]:
    """Yield structs as dicts, a block of rows at a time: faster than ``iter_rows(named=True)``."""
    for start in range(0, len(rows), _BLOCK_ROWS):
        yield from rows[start : start + _BLOCK_ROWS].to_list()


def _failures_alone(
    aggregate: Aggregate, rows: Sequence[RowValues]
) -> Iterator[tuple[int, Failure]]:
    """Yield the place of each row that has no state alone as a JSON value, with the failure."""
    states = [attempt("add", partial(_state_alone, aggregate, row)) for row in rows]
    made = [state for state in states if not isinstance(state, Failure)]
    # One call for all of them takes a tenth of the time.
    if isinstance(attempt("add", partial(json.dumps, made)), Failure):
        states = [
            state if isinstance(state, Failure) else attempt("add", partial(json.dumps, state))
            for state in states
        ]
    yield from ((at, state) for at, state in enumerate(states) if isinstance(state, Failure))


def _state_alone(aggregate: Aggregate, row: RowValues) -> Any:
    return aggregate.add(aggregate.init(), row)


def fold_of(aggregate: Aggregate, rows: Sequence[RowValues], states: Sequence[str]) -> str:
    """Merge the states, add the rows, and return the state as JSON."""
    merged = json.loads(states[0]) if states else aggregate.init()
    for text in states[1:]:
        merged = aggregate.merge(merged, json.loads(text))
    for row in rows:
        merged = aggregate.add(merged, row)
    return json.dumps(merged)


@dataclass(frozen=True)
class FrameFunction(_PythonFunction):
    """A function of the frame of a window's rows.  Part: ``rows``, structs of order and row."""

    function: Callable[[pl.DataFrame], Any]

    def __str__(self) -> str:
        return f"apply_frame({getattr(self.function, '__name__', 'function')})"

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the declared type; try the function on probe rows.

        Raises:
            PipelineError: a column is not in the stream, or the function fails on all probe rows.
        """
        declared = super().type(name, columns)
        require_working(self, name, {column: columns[column] for column in self.of_columns})
        return declared

    def refusals(self, _name: str, _rows: pl.DataFrame) -> Mapping[int, str]:
        """Return nothing: the function sees the rows of a pane together, never one alone."""
        return {}

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return each row with the fields that order it, as a list of one."""
        row = rows.select(self.of_columns).to_struct("row")
        ordered = _kept(rows, order_columns(rows).with_columns(row))
        return [single_item_lists(ordered, f"{name}.rows")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.rows")]

    def results(self, name: str, partials: pl.DataFrame) -> tuple[pl.Series, Mapping[int, str]]:
        """Call the function with the rows of each pane, ordered by event time, source, offset."""
        lists = partials[f"{name}.rows"]
        _, ordered = in_row_order(lists)
        rows = ordered["row"].struct.unnest()
        lengths = lists.list.len().fill_null(0).to_list()
        return self._checked(name, self._called(rows, lengths))

    def _called(self, rows: pl.DataFrame, lengths: Iterable[int]) -> Iterator[Any | Failure]:
        start = 0
        for length in lengths:
            yield self.called(rows[start : start + length])
            start += length

    def called(self, rows: pl.DataFrame) -> Any | Failure:
        """Return what the function returns for a frame, or what it raised."""
        return attempt("function", partial(self.function, rows))
