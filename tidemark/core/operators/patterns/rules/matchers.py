"""The matchers of the texts that count, and the rows that fulfil their conditions."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

import numpy as np
import polars as pl

from tidemark.core.operators.patterns.rules.condition_index import ConditionIndex
from tidemark.core.operators.patterns.rules.matcher import FittingRows, Matcher
from tidemark.core.operators.patterns.rules.terms import Terms, terms_of


class Matchers:
    """A matcher for each text; all of them share one index of their conditions.

    What it holds follows from the texts, so it is no part of the state.
    """

    def __init__(
        self, matcher: Callable[[str], Matcher], columns: Mapping[str, pl.DataType]
    ) -> None:
        """Start empty; ``matcher``: of a text, ``columns``: of the rows."""
        self._matcher = matcher
        self._columns = columns
        self._matchers: dict[str, Matcher] = {}
        self._terms: dict[str, tuple[Terms, ...]] = {}
        self._index = ConditionIndex((), (), columns)
        self._bits: list[tuple[str, int]] = []  # of each condition of the index: its text and bit

    def of(self, text: str) -> Matcher:
        """Return the matcher of a text."""
        if text not in self._matchers:
            self._matchers[text] = self._matcher(text)
        return self._matchers[text]

    def fitting(self, rows: pl.DataFrame, texts: AbstractSet[str]) -> Mapping[str, FittingRows]:
        """Return, for each text that has some, the rows that fulfil one of its conditions.

        The matchers and terms of all other texts are dropped.
        """
        if texts != self._terms.keys():
            self._take(sorted(texts))
        if not rows.height:
            return {}
        found: dict[str, list[FittingRows]] = {}
        for number, at in self._index.fulfilled(rows):
            text, bit = self._bits[number]
            found.setdefault(text, []).append(FittingRows(at, np.full(at.size, bit)))
        return {text: FittingRows.joined(parts) for text, parts in found.items()}

    def _take(self, texts: list[str]) -> None:
        """Make the index of some texts."""
        self._matchers = {text: self.of(text) for text in texts}
        conditions = {text: self._matchers[text].conditions for text in texts}
        new = [text for text in texts if text not in self._terms]
        terms = iter(terms_of([each for text in new for each in conditions[text]], self._columns))
        of_new = {text: tuple(next(terms) for _ in conditions[text]) for text in new}
        known = self._terms | of_new
        self._terms = {text: known[text] for text in texts}
        self._bits = [(text, 1 << at) for text in texts for at, _ in enumerate(conditions[text])]
        self._index = ConditionIndex(
            [each for text in texts for each in conditions[text]],
            [each for text in texts for each in self._terms[text]],
            self._columns,
        )
