"""Aggregates: rows become partials, partials merge, and a merged partial becomes values.

Each row starts as a partial of its own.  So rows and partials merge by the same code, in any order
and grouping.  Columns of a frame of partials:

1. the columns that the rows are grouped by
2. ROWS: the number of rows folded, Int64
3. per aggregate, its parts: columns named ``<name>.<part>``.  Limbs (exact_sum.py; of sums and of
   sums of squares) and counters are Int64.  They are present only if some row needs them: an
   absent column means zero.  All other parts are always present.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl

from tidemark.core.aggregates import exact_sum
from tidemark.core.aggregates.parts import LIMB, SQUARE, carried
from tidemark.core.aggregates.runs import Numbers, Runs
from tidemark.core.aggregates.user_call import good_for_all
from tidemark.core.time.segment import ARRIVAL, ROW_COLUMNS, SOURCE
from tidemark.errors import PipelineError

ROWS = "@rows"
"""Int64 partial column: the number of rows folded.  It becomes the pane's revision."""

Columns = Mapping[str, pl.DataType]
"""Value columns of rows by name, with their types."""

FAULT = "@fault"
"""String column of values: why a user's function failed, else null.

Its text begins with the name of the aggregate and "=".  Only aggregates of users have the column.
"""

KEPT = "@kept"
"""Boolean column of rows, null in the rows for which ``where`` of an aggregate is not true.

Only an aggregate with ``where`` sees it.
"""


class AggregateFunction(Protocol):
    """One aggregate of an operator, such as ``sum("amount")``; a frozen value.

    Its text, ``str(function)``, is what a user writes: plans show it, and state of another text
    does not fit.  ``name`` is the name that the user gives the aggregate; partial columns are
    ``<name>.<part>``.
    """

    @property
    def skips_nulls_of(self) -> tuple[str, ...]:
        """The columns in which null takes a row out of the aggregate; if none, see KEPT."""

    def type(self, name: str, columns: Columns, /) -> pl.DataType:
        """Return the type of the values.

        Raises:
            PipelineError: a column is missing, or its type does not suit the aggregate.
        """

    def parts(self, name: str, rows: pl.DataFrame, /) -> list[pl.Series]:
        """Return the partial columns of rows, each row as a partial of its own."""

    def merge(self, name: str, present: Sequence[str], /) -> list[pl.Expr]:
        """Return expressions that merge a group of partials.

        ``present``: the partial columns of their frame.
        """

    def value(self, name: str, partials: pl.DataFrame, columns: Columns, /) -> pl.Series:
        """Return the value of each merged partial.

        The type is that of ``type``, or a wider type if an exact sum does not fit it.
        """


@runtime_checkable
class RefusingFunction(Protocol):
    """An aggregate that may fail on a row: it calls a user's Python code or has a ``where``.

    A reason is ``<name>=<aggregate>: ...``, with the type and the text of the exception.
    """

    @property
    def stops(self) -> bool:
        """Whether a failure stops the operator, instead of making a dead letter."""

    def refusals(self, name: str, rows: pl.DataFrame, /) -> Mapping[int, str]:
        """Return the places of the rows that the aggregate cannot take, with reasons.

        Each row is tried alone, so the answer for a row depends on this row only.
        """


@runtime_checkable
class UserFunction(RefusingFunction, Protocol):
    """An aggregate that calls a user's Python code, which may fail on panes too."""

    def results(self, name: str, partials: pl.DataFrame, /) -> tuple[pl.Series, Mapping[int, str]]:
        """Return the value of each merged partial, null where it fails, and reasons by place."""


@runtime_checkable
class FilteringFunction(Protocol):
    """An aggregate, ``inner``, of some of the rows; the parts are those of ``inner``."""

    @property
    def inner(self) -> AggregateFunction:
        """The aggregate of all rows."""

    @property
    def where(self) -> pl.Expr:
        """Whether a row counts."""


@runtime_checkable
class CompactingFunction(Protocol):
    """An aggregate whose parts can be made smaller after a merge."""

    def compact(self, name: str, partials: pl.DataFrame, /) -> list[pl.Series]:
        """Return the parts that change, in their smaller form."""


@runtime_checkable
class RunningFunction(Protocol):
    """An aggregate that can compute running merges of a run of partials in one pass."""

    def running(self, name: str, partials: pl.DataFrame, runs: Runs, /) -> list[pl.Series] | None:
        """Merge each partial with those before it in its run; None if one pass cannot do that.

        The parts that are returned are as small as after ``compact``.
        """


@dataclass(frozen=True)
class Aggregation:
    """The named aggregates of one operator, over rows with the value columns ``columns``.

    Raises:
        PipelineError: there are no aggregates, or a column does not suit its aggregate.
    """

    aggregates: Mapping[str, AggregateFunction]
    columns: Columns

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise PipelineError("aggregate(): no aggregates; pass at least one, as name=count()")
        self.types  # noqa: B018 - raises where a column does not suit its aggregate

    @cached_property
    def types(self) -> dict[str, pl.DataType]:
        """The types of the value columns of panes, in order."""
        return {
            name: function.type(name, self.columns) for name, function in self.aggregates.items()
        }

    @cached_property
    def value_types(self) -> dict[str, pl.DataType]:
        """The columns of ``values``: ``types``, and FAULT if a user's function may fail."""
        return {**self.types, **({FAULT: pl.String()} if self.user_functions else {})}

    @cached_property
    def user_functions(self) -> dict[str, UserFunction]:
        """The aggregates that call a user's code; those that stop the operator come first."""
        return {
            name: function
            for name in self.refusing
            if isinstance(function := self.functions[name], UserFunction)
        }

    @cached_property
    def functions(self) -> dict[str, AggregateFunction]:
        """The aggregates by name, without their ``where``: what partials and values depend on."""
        return {
            name: function.inner if isinstance(function, FilteringFunction) else function
            for name, function in self.aggregates.items()
        }

    @cached_property
    def refusing(self) -> dict[str, RefusingFunction]:
        """The aggregates that may fail on a row; those that stop the operator come first."""
        found = {
            name: function
            for name, function in self.aggregates.items()
            if isinstance(function, RefusingFunction)
        }
        return dict(sorted(found.items(), key=lambda item: not item[1].stops))

    def stops(self, reason: str) -> bool:
        """Return whether a failure with this reason stops the operator."""
        name, _, _ = reason.partition("=")
        return self.refusing[name].stops

    def refusals(self, rows: pl.DataFrame) -> dict[int, str]:
        """Return the places of rows that an aggregate cannot take, in order, with reasons."""
        found: dict[int, str] = {}
        good = good_for_all(self._wheres, rows)
        for name, function in self.refusing.items():
            if name not in good:
                found = {**function.refusals(name, rows), **found}
        return dict(sorted(found.items()))

    @cached_property
    def _wheres(self) -> dict[str, pl.Expr]:
        """The ``where`` of the aggregates that can fail on a row in no other way."""
        return {
            name: function.where
            for name, function in self.refusing.items()
            if isinstance(function, FilteringFunction)
            and not isinstance(function.inner, UserFunction)
        }

    @property
    def by_arrival(self) -> bool:
        """Whether some aggregate needs the order of arrival: the column ARRIVAL."""
        return any(getattr(function, "by_arrival", False) for function in self.functions.values())

    def partials(
        self, rows: pl.DataFrame, by: Sequence[str], others: Sequence[pl.DataFrame] = ()
    ) -> pl.DataFrame:
        """Fold rows, and merge ``others``, into one partial per group of ``by``.

        Returns the columns ``by``, ROWS and the partial columns; groups are in no defined order.
        """
        return self.combine([self._row_partials(rows, by), *others], by)

    def row_partials(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return each row as a partial of its own, in order: ROWS and the partial columns."""
        return self._compacted(self._row_partials(rows, ()))

    def _row_partials(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        columns = [rows[column] for column in by]
        columns.append(pl.Series(ROWS, np.ones(rows.height, np.int64)))
        for name, function in self.aggregates.items():
            columns += function.parts(name, rows)
        return pl.DataFrame(columns)

    def running(self, partials: pl.DataFrame, group: Numbers) -> pl.DataFrame | None:
        """Merge each partial with those before it in its group; None if one pass cannot do that.

        ``group``: the group of each partial.  Groups are contiguous and numbered from 0.
        """
        if len(self._running) < len(self.aggregates):
            return None
        runs = Runs(group)
        columns = [runs.sums(partials[ROWS])]
        for name, function in self._running:
            merged = function.running(name, partials, runs)
            if merged is None:
                return None
            columns += merged
        return self._carried(pl.DataFrame(columns))

    def combine(self, partials: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """Merge frames of partials into one partial per group of ``by``.

        ``partials``: at least one frame; their partial columns may differ.  Groups are in no
        defined order.
        """
        frame = partials[0] if len(partials) == 1 else pl.concat(partials, how="diagonal")
        return self._merged(frame, by)

    def values(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Return the value columns of partials, in the order of ``value_types``.

        Each value is rounded once.  Sums are exact at any size: a sum of integers beyond Int64
        makes its column Int128, and a sum of decimals beyond 38 digits makes its column String.
        """
        made: dict[str, pl.Series] = {}
        faults: dict[int, str] = {}
        for name, user_function in self.user_functions.items():
            made[name], failed = user_function.results(name, partials)
            faults = {**failed, **faults}
        for name, function in self.functions.items():
            if name not in made:
                made[name] = function.value(name, partials, self.columns)
        columns = [made[name].alias(name) for name in self.aggregates]
        if self.user_functions:
            reasons = pl.Series(FAULT, [None], pl.String).new_from_index(0, partials.height)
            columns.append(reasons.scatter([*faults], [*faults.values()]) if faults else reasons)
        return pl.DataFrame(columns)

    def empty(self, by: Columns) -> pl.DataFrame:
        """Return a frame of partials without any group, with the columns ``by``."""
        schema = {**ROW_COLUMNS, SOURCE: pl.String(), ARRIVAL: pl.Int64(), **self.columns, **by}
        return self.partials(pl.DataFrame(schema=schema), list(by))

    def with_empty_groups(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Fill in partials without rows, all of whose parts are null, as partials of zero rows."""
        whole = pl.concat([self.empty({}), partials], how="diagonal")
        lists = [name for name, dtype in whole.schema.items() if isinstance(dtype, pl.List)]
        empty_lists = [pl.col(name).fill_null(pl.lit([], whole.schema[name])) for name in lists]
        return whole.with_columns(pl.col(ROWS).fill_null(0), *empty_lists)

    def _merged(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        assert frame.height <= exact_sum.MAX_ROWS, f"{frame.height} rows at once"
        merges = [pl.col(ROWS).sum()]
        present = [column for column in frame.columns if column not in by]
        for name, function in self.functions.items():
            merges += function.merge(name, present)
        if frame.height <= 1:
            return frame
        return self._compacted(frame.group_by(by).agg(merges))

    def _compacted(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Return partials whose parts are small again after a merge."""
        partials = self._carried(partials)
        for name, function in self._compacting:
            partials = partials.with_columns(function.compact(name, partials))
        return partials

    def _carried(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Return partials whose limbs are small again."""
        for name, part in self._limbed(partials.columns):
            partials = carried(name, partials, part)
        return partials

    def _limbed(self, present: Iterable[str]) -> list[tuple[str, str]]:
        """Return the aggregates that have limbs, with the kind of limbs: LIMB or SQUARE."""
        found = {}
        for column in present:
            name, _, part = column.rpartition(".")
            prefix = part.rstrip("0123456789")
            if prefix in (LIMB, SQUARE) and name in self.aggregates:
                found[name, prefix] = True
        return list(found)

    @cached_property
    def _running(self) -> list[tuple[str, RunningFunction]]:
        """The aggregates with a running form; cached, as ``_compacting`` is."""
        return [
            (name, function)
            for name, function in self.functions.items()
            if isinstance(function, RunningFunction)
        ]

    @cached_property
    def _compacting(self) -> list[tuple[str, CompactingFunction]]:
        """The aggregates that compact; cached, since the check takes longer than a small merge."""
        return [
            (name, function)
            for name, function in self.functions.items()
            if isinstance(function, CompactingFunction)
        ]
