"""Aggregates of some of a window's rows: ``where=`` of every aggregate.

See docs/semantics.md, "Aggregates of some rows".  A row for which ``where`` is not true looks to
the aggregate like a row with a null in its column, which aggregates skip.  Aggregates that do not
skip nulls skip the rows that ``KEPT`` does not mark.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import (
    KEPT,
    AggregateFunction,
    Columns,
    UserFunction,
)
from tidemark.core.aggregates.basic import Count, CountValues
from tidemark.core.aggregates.user_call import Failure, attempt
from tidemark.core.rows.expression import (
    evaluate,
    expression_text,
    metadata_used,
    output_types,
    require_expression,
    whole_text,
)
from tidemark.core.rows.probe import require_row_wise
from tidemark.errors import PipelineError

_MANY = 16
"""Parts of a frame with a row on which ``where`` fails, each of which is tried next."""


@dataclass(frozen=True)
class Filtered:
    """An aggregate, ``inner``, of the rows for which ``where`` is true; null is not true."""

    inner: AggregateFunction
    where: pl.Expr

    def __str__(self) -> str:
        call = str(self.inner)[:-1]
        return f"{call}{'' if call.endswith('(') else ', '}where={whole_text(self.where)})"

    @property
    def skips_nulls_of(self) -> tuple[str, ...]:
        """The columns of ``inner``."""
        return self.inner.skips_nulls_of

    @property
    def stops(self) -> bool:
        """Whether a failure stops the operator: if it does so in ``inner``."""
        return isinstance(self.inner, UserFunction) and self.inner.stops

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Return the type of ``inner``.

        Raises:
            PipelineError: ``where`` is not a row-wise Boolean of the stream's columns.
        """
        what = f"{name}={self.inner}: where"
        metadata = metadata_used([self.where])
        if metadata:
            raise PipelineError(
                f"{what}: {metadata[0]!r} is not in the log; make it a column before the window: "
                f"with_columns(name=col({metadata[0]!r}))"
            )
        if self.where.meta.has_multiple_outputs():
            text = expression_text(self.where)
            raise PipelineError(f"{what}: {text} does not name its columns; name each of them")
        found = list(output_types([self.where], columns, what).values())
        if found != [pl.Boolean()]:
            types = ", ".join(map(str, found))
            raise PipelineError(f"{what}: {expression_text(self.where)} is {types}, not Boolean")
        require_row_wise(self.where, columns, what)
        return self.inner.type(name, {**columns, KEPT: pl.Boolean()})

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return the parts of ``inner``; rows for which ``where`` is not true are taken out."""
        kept = self._kept(rows)
        taken = kept.set(~kept, None)
        nulled = [pl.when(KEPT).then(column).alias(column) for column in self.skips_nulls_of]
        return self.inner.parts(name, rows.with_columns(taken).with_columns(nulled))

    def merge(self, name: str, present: Sequence[str]) -> list[pl.Expr]:
        """Return the merge of ``inner``."""
        return self.inner.merge(name, present)

    def value(self, name: str, partials: pl.DataFrame, columns: Columns) -> pl.Series:
        """Return the values of ``inner``."""
        return self.inner.value(name, partials, columns)

    def refusals(self, name: str, rows: pl.DataFrame) -> Mapping[int, str]:
        """Return the places of the rows on which ``where`` fails or that ``inner`` refuses."""
        refused: dict[int, str] = {}
        kept = []
        start = 0
        for height, found in self._tried(rows):
            if isinstance(found, Failure):
                refused[start] = f"{name}={self.inner}: {found.reason}"
            else:
                kept.append(np.flatnonzero(found.to_numpy()) + start)
            start += height
        if isinstance(self.inner, UserFunction):
            taken = np.concatenate([np.zeros(0, np.int64), *kept])
            inner = self.inner.refusals(name, rows[taken])
            refused |= {int(taken[at]): reason for at, reason in inner.items()}
        return refused

    def _tried(self, rows: pl.DataFrame) -> Iterator[tuple[int, pl.Series | Failure]]:
        """Yield the rows kept of parts of a frame, in order, with the height of each part.

        A row on which ``where`` fails is a part of its own.
        """
        found = attempt("where", partial(self._kept, rows))
        if isinstance(found, Failure) and rows.height > 1:
            for part in rows.iter_slices(-(-rows.height // _MANY)):
                yield from self._tried(part)
        else:
            yield rows.height, found

    def _kept(self, rows: pl.DataFrame) -> pl.Series:
        """Return whether ``where`` is true, for each row."""
        kept = evaluate([self.where.alias(KEPT)], [KEPT], rows)[KEPT]
        if kept.dtype != pl.Boolean:
            raise TypeError(f"the expression became {kept.dtype}, not Boolean")
        return kept.fill_null(value=False)


class CountKept(CountValues):
    """The number of rows for which ``where`` is true."""

    def __str__(self) -> str:
        return "count()"


def filtered(function: AggregateFunction, where: pl.Expr | None) -> AggregateFunction:
    """Return an aggregate of the rows for which ``where`` is true; of all rows if it is None.

    Raises:
        PipelineError: ``where`` is not an expression.
    """
    if where is None:
        return function
    if isinstance(function, Count):
        function = CountKept(KEPT)
    return Filtered(function, require_expression(where, f"{function}: where"))
