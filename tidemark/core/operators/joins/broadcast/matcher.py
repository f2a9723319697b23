"""Pairs: which spans of versions each row meets.

A condition such as ``col("kind") == col("kind_right")`` needs no look at other versions: rows and
versions are in groups of equal values first.  Then the times must fit, and the condition hold.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.operators.joins.pairs import ranges_of_rows
from tidemark.core.operators.joins.results import Results
from tidemark.core.operators.joins.version_runs import FROM
from tidemark.core.operators.joins.version_spans import UNTIL
from tidemark.core.rows.conjuncts import conjuncts, operands
from tidemark.core.rows.keys import distinct_keys
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Numbers, ranges
from tidemark.core.time.segment import EVENT_TIME

_CANDIDATES = 1 << 18
"""Pairs that are looked at together, unless one row has more."""


class Met(NamedTuple):
    """What some consecutive rows meet.

    ``first``, ``stop``: the numbers of the rows.  ``row``, ``span``: of each pair, in order of rows
    and then of spans.
    """

    first: int
    stop: int
    row: Numbers
    span: Numbers


@dataclass(frozen=True)
class SpanMatcher:
    """Finds the spans that rows meet.

    ``results``: names and types of columns, and the condition.  ``equal``: pairs of a left and a
    right column, by their names in the sides, that the condition wants to be equal.
    """

    results: Results
    equal: tuple[tuple[str, str], ...]

    def met(self, rows: pl.DataFrame, spans: pl.DataFrame) -> Iterator[Met]:
        """Yield the pairs of all rows, some rows at a time."""
        at_ms = rows[EVENT_TIME].to_numpy()
        from_ms, until_ms = spans[FROM].to_numpy(), spans[UNTIL].to_numpy()
        near = np.flatnonzero((from_ms <= at_ms.max()) & (until_ms > at_ms.min()))
        group, of_spans = self._groups(rows, lines_at(spans, near))
        by_group = np.argsort(of_spans, kind="stable")
        near, of_spans = near[by_group], of_spans[by_group]
        first = np.searchsorted(of_spans, group)
        count = np.searchsorted(of_spans, group, "right") - first
        for begin, stop in ranges_of_rows(np.add.accumulate(count), _CANDIDATES):
            some = np.arange(begin, stop)
            row = np.repeat(some, count[begin:stop])
            span = near[ranges(first[begin:stop], count[begin:stop])]
            during = (from_ms[span] <= at_ms[row]) & (at_ms[row] < until_ms[span])
            row, span = row[during], span[during]
            holds = self._holds(rows, spans, row, span)
            yield Met(begin, stop, row[holds], span[holds])

    def _groups(self, rows: pl.DataFrame, spans: pl.DataFrame) -> tuple[Numbers, Numbers]:
        """Return a number for each row and each span: those that may pair have the same."""
        if not self.equal:
            return np.zeros(rows.height, np.int64), np.zeros(spans.height, np.int64)
        names = [f"{left}={right}" for left, right in self.equal]
        of_rows = [rows[left].alias(f"{left}={right}") for left, right in self.equal]
        of_spans = [spans[right].alias(f"{left}={right}") for left, right in self.equal]
        both = pl.concat([pl.DataFrame(of_rows), pl.DataFrame(of_spans)])
        _, group = distinct_keys(both, names)
        return group[: rows.height], group[rows.height :]

    def _holds(
        self, rows: pl.DataFrame, spans: pl.DataFrame, row: Numbers, span: Numbers
    ) -> Numbers:
        """Return the places of the pairs for which the condition holds."""
        condition = self.results.condition
        if condition is None or not row.size:
            return np.arange(row.size)
        named = condition.meta.root_names()
        left = {**{name: name for name in self.results.key}, **self.results.left.shown}
        values = [
            *_named(rows, left, named, pl.Series(row)),
            *_named(spans, self.results.right.shown, named, pl.Series(span)),
        ]
        lead = pl.Series("@pair", np.arange(row.size))  # a condition may name no column
        return np.flatnonzero(self.results.is_met(pl.DataFrame([lead, *values])))


def _named(
    frame: pl.DataFrame, shown: Mapping[str, str], named: Sequence[str], at: pl.Series
) -> Iterator[pl.Series]:
    """Yield the columns of lines that a condition names, with their names in results."""
    return (frame[column].gather(at).alias(name) for column, name in shown.items() if name in named)


def equal_columns(results: Results) -> tuple[tuple[str, str], ...]:
    """Return the columns of the left and of the right side that a condition wants to be equal.

    Only columns of the same type count: their values are equal if their encodings are.
    """
    left = {**{name: name for name in results.key}, **_columns(results.left.shown)}
    right = _columns(results.right.shown)
    types = results.left.columns, results.right.columns
    found = []
    for one, other in _equalities(results.condition):
        for mine, theirs in ((one, other), (other, one)):
            if mine not in left or theirs not in right:
                continue
            pair = left[mine], right[theirs]
            dtype = types[0][pair[0]]
            if dtype == types[1][pair[1]] and not dtype.is_float() and not dtype.is_nested():
                found.append(pair)
    return tuple(found)


def _columns(shown: Mapping[str, str]) -> dict[str, str]:
    """Return the column of a side by its name in results."""
    return {name: column for column, name in shown.items()}


def _equalities(condition: pl.Expr | None) -> Iterator[tuple[str, str]]:
    """Yield the pairs of columns that must be equal for a condition to hold."""
    if condition is None:
        return
    for each in conjuncts(condition):
        parts = operands(each, operator.eq)
        if parts is not None and all(part.meta.is_column() for part in parts):
            one, other = (part.meta.root_names()[0] for part in parts)
            yield one, other
