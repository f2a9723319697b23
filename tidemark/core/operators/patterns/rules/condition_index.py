"""The index of the conditions of all rules: a condition meets only rows that may fulfil it.

A term on a text finds the rows of a condition by their text.  Without such a term, a bound on a
number finds them by a search in the sorted column.  Other terms are compared for these rows only.
A condition that is more than its terms is evaluated on these rows, without terms on all rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Mask, Numbers
from tidemark.core.operators.patterns.conditions import holding, truths_of
from tidemark.core.operators.patterns.rules.terms import COMPARED, Term, Terms
from tidemark.core.state.blocks import lines_at

_ROW, _VALUE = "@row", "@value"
_NONE: Numbers = np.empty(0, np.int64)


class _Sorted(NamedTuple):
    """A column of numbers without nulls: values in order, and the row of each."""

    values: Numbers
    row: Numbers


@dataclass(frozen=True)
class ConditionIndex:
    """Conditions on rows with these columns, each with its terms."""

    conditions: Sequence[pl.Expr]
    terms: Sequence[Terms]
    columns: Mapping[str, pl.DataType]

    def fulfilled(self, rows: pl.DataFrame) -> Iterator[tuple[int, Numbers]]:
        """Yield the numbers of conditions that rows fulfil, each with these rows in order."""
        own = rows[list(self.columns)]
        rows_of = _RowsOfTerms(own, self._texts)
        for number in self._may_hold(rows_of):
            found = self.terms[number]
            at = rows_of.all(found.terms)
            if at.size and not found.is_whole:
                (holds,) = holding(truths_of([self.conditions[number]]), lines_at(own, at))
                at = at[holds]
            if at.size:
                yield number, at
        others = holding(self._truths_of_others, own)
        for number, holds in zip(self._others, others, strict=True):
            if holds.any():
                yield number, np.flatnonzero(holds)

    def _may_hold(self, rows_of: "_RowsOfTerms") -> Iterator[int]:
        """Yield conditions with terms; if a term is on a text, only where a row has the text."""
        yield from self._bounded
        for column, of_texts in self._with_text.items():
            found = rows_of.by_text[column]
            numbers = {number for text in found for number in of_texts.get(text, ())}
            yield from sorted(numbers)

    @cached_property
    def _others(self) -> Sequence[int]:
        """The conditions without terms."""
        return [number for number, each in enumerate(self.terms) if not each.terms]

    @cached_property
    def _truths_of_others(self) -> Sequence[pl.Expr]:
        return truths_of([self.conditions[number] for number in self._others])

    @cached_property
    def _bounded(self) -> Sequence[int]:
        """The conditions with terms on numbers alone."""
        return [
            number
            for number, each in enumerate(self.terms)
            if each.terms and self._on_text(each) is None
        ]

    @cached_property
    def _with_text(self) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """The conditions by column and texts of their first term on a text."""
        found: dict[str, dict[str, list[int]]] = {}
        for number, each in enumerate(self.terms):
            if (term := self._on_text(each)) is not None:
                of_texts = found.setdefault(term.column, {})
                for text in term.values:
                    of_texts.setdefault(text, []).append(number)
        return found

    def _on_text(self, terms: Terms) -> Term | None:
        is_text = (term for term in terms.terms if self.columns[term.column] == pl.String)
        return next(is_text, None)

    @cached_property
    def _texts(self) -> Mapping[str, pl.Series]:
        """The texts that terms name, by column."""
        found: dict[str, set[str]] = {}
        for term in (term for each in self.terms for term in each.terms):
            if self.columns[term.column] == pl.String:
                found.setdefault(term.column, set()).update(term.values)
        return {name: pl.Series(sorted(texts)) for name, texts in found.items()}


class _RowsOfTerms:
    """Finds the rows of some frame that fulfil terms.

    ``by_text``: by column, the rows of each text that terms name, in order.
    """

    def __init__(self, own: pl.DataFrame, texts: Mapping[str, pl.Series]) -> None:
        self._own = own
        self.by_text = {name: _by_text(own[name], known) for name, known in texts.items()}
        self._sorted: dict[str, _Sorted] = {}
        self._numbers: dict[str, tuple[Numbers, Mask]] = {}

    def all(self, terms: Sequence[Term]) -> Numbers:
        """Return the rows, in order, that fulfil all of some terms; there is at least one."""
        of_texts = [term for term in terms if term.column in self.by_text]
        bounds = [term for term in terms if term.column not in self.by_text]
        if not of_texts:
            first = bounds[0].column
            at = self._within(first, [term for term in bounds if term.column == first])
            bounds = [term for term in bounds if term.column != first]
        else:
            at, *others = (self._of_text(term) for term in of_texts)
            for each in others:
                at = np.intersect1d(at, each, assume_unique=True)
        for term in bounds:
            if at.size:
                at = at[self._holds(term, at)]
        return at

    def _of_text(self, term: Term) -> Numbers:
        rows_of = self.by_text[term.column]
        found = [rows_of[each] for each in dict.fromkeys(term.values) if each in rows_of]
        if len(found) <= 1:
            return found[0] if found else _NONE
        return np.sort(np.concatenate(found))

    def _within(self, column: str, terms: Sequence[Term]) -> Numbers:
        """Return the rows, in order, with a number that terms on one column allow."""
        if column not in self._sorted:
            values, is_known = self._of_column(column)
            row = np.flatnonzero(is_known)
            row = row[np.argsort(values[row], kind="stable")]
            self._sorted[column] = _Sorted(values[row], row)
        ordered = self._sorted[column]
        first, stop = 0, ordered.row.size
        for term in terms:
            begin, end = _range(ordered.values, term)
            first, stop = max(first, begin), min(stop, end)
        at = np.sort(ordered.row[first:stop])
        for term in terms:
            if len(term.values) > 1:
                at = at[self._holds(term, at)]
        return at

    def _holds(self, term: Term, at: Numbers) -> Mask:
        """Mark the rows of some that fulfil a term on a number."""
        values, is_known = self._of_column(term.column)
        compared = COMPARED[term.comparison]
        holds: Mask = is_known[at] & np.logical_or.reduce(
            [compared(values[at], each) for each in term.values]
        )
        return holds

    def _of_column(self, column: str) -> tuple[Numbers, Mask]:
        """Return the numbers of a column, and which rows have one; NaN is above all bounds."""
        if column not in self._numbers:
            series = self._own[column]
            values = series.fill_null(0).to_numpy()
            if series.dtype.is_float():
                values = np.where(np.isnan(values), np.inf, values)
            self._numbers[column] = values, series.is_not_null().to_numpy()
        return self._numbers[column]


def _range(values: Numbers, term: Term) -> tuple[int, int]:
    """Return the range of sorted numbers that holds all that a term allows."""
    least, most = min(term.values), max(term.values)
    match term.comparison:
        case "in":
            return int(np.searchsorted(values, least)), int(np.searchsorted(values, most, "right"))
        case "<":
            return 0, int(np.searchsorted(values, least))
        case "<=":
            return 0, int(np.searchsorted(values, least, "right"))
        case ">":
            return int(np.searchsorted(values, least, "right")), values.size
        case ">=":
            return int(np.searchsorted(values, least)), values.size


def _by_text(texts: pl.Series, known: pl.Series) -> Mapping[str, Numbers]:
    """Return the rows, in order, of each known text that some row has."""
    frame = pl.DataFrame({_VALUE: texts}).with_row_index(_ROW)
    found = frame.filter(pl.col(_VALUE).is_in(known.implode())).group_by(
        _VALUE, maintain_order=True
    )
    groups = found.agg(pl.col(_ROW).cast(pl.Int64))
    return {value: at.to_numpy() for value, at in zip(groups[_VALUE], groups[_ROW], strict=True)}
