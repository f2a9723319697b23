"""What a result of a pattern shows of its rows: a column of one row, or an aggregate of rows.

See docs/semantics.md, "Patterns".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS as FOLDED
from tidemark.core.aggregates.aggregate import AggregateFunction, Aggregation
from tidemark.core.operators.operator import Numbers
from tidemark.core.rows.expression import Columns
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW

_RESULT = "@result"  # number of the result that a row is of
_ORDER = (EVENT_TIME, SOURCE, OFFSET, SUB_ROW)


class Value(NamedTuple):
    """A column of the last row of a step, or of the first; null in a result without such a row.

    ``step``: None for all rows of a result.
    """

    step: int | None
    column: str
    first: bool = False


class OfRows(NamedTuple):
    """An aggregate of the rows that a result has of a step, or with None of all its rows.

    ``function``: over the columns of ``step_columns``.
    """

    step: int | None
    function: AggregateFunction


StepValue = Value | OfRows


def step_columns(step: str, columns: Columns) -> dict[str, pl.DataType]:
    """Return the columns of rows of a step: ``hot.celsius``, and ``hot``, true for each row."""
    return {step: pl.Boolean(), **{f"{step}.{name}": columns[name] for name in columns}}


@dataclass(frozen=True)
class StepAggregates:
    """The aggregates of the rows of one step, or with None of all rows; ``columns``: of a row."""

    step: int | None
    name: str
    functions: Mapping[str, AggregateFunction]
    columns: Columns

    @cached_property
    def aggregation(self) -> Aggregation:
        """The aggregates over the columns of the step; those of all rows have no columns."""
        own = {} if self.step is None else step_columns(self.name, self.columns)
        return Aggregation(self.functions, own)

    @cached_property
    def _own(self) -> list[pl.Expr]:
        """The columns that the aggregates see."""
        if self.step is None:
            return []
        renamed = [pl.col(name).alias(f"{self.name}.{name}") for name in self.columns]
        return [pl.lit(value=True).alias(self.name), *renamed]

    def values(self, rows: pl.DataFrame, result: Numbers, count: int) -> pl.DataFrame:
        """Return the aggregates of ``count`` results; ``rows``: those of the step.

        ``result``: the number of the result that each row is of.  A row on which a condition of an
        aggregate fails does not count.
        """
        named = rows.select(*_ORDER, *self._own, pl.Series(_RESULT, result))
        refused = [*self.aggregation.refusals(named)]
        if refused:
            named = named.filter(~pl.int_range(pl.len()).is_in(refused))
        partials = self.aggregation.partials(named, (_RESULT,))
        alone = np.setdiff1d(np.arange(count), named[_RESULT].to_numpy())
        if alone.size:
            none = pl.DataFrame({_RESULT: alone, FOLDED: np.zeros(alone.size, np.int64)})
            both = pl.concat([partials, none], how="diagonal")
            partials = self.aggregation.with_empty_groups(both)
        return self.aggregation.values(partials.sort(_RESULT))
