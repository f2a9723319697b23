"""Answers to conditions on earlier rows, found for all rows at once before a key asks.

A key asks about one row after the other, and each answer may decide the next question.  The earlier
row is often one of the last rows of the key.  So the conditions of a batch of rows are evaluated in
columns for each pair of near rows.  Other questions are asked (``Conditions.answers``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidemark.core.operators.operator import Numbers
from tidemark.core.operators.patterns.key_rows import KeyRows
from tidemark.core.operators.patterns.partial import Refs, place_of, step_of

REACH = 8
"""How many rows of the key back a pair may reach."""


@dataclass(frozen=True)
class Pairs:
    """Rows and earlier rows of a step, by number.

    ``back``: how many rows of the key the earlier row is back; 0: there is no earlier row.
    """

    row: Numbers
    back: Numbers

    @property
    def earlier(self) -> Numbers:
        """The numbers of the earlier rows, -1 without one."""
        return np.where(self.back == 0, -1, self.row - self.back)


def near_pairs(rows: KeyRows, step: int, earlier: int) -> Pairs:
    """Return the pairs of a row that fits ``step`` and a near one that fits ``earlier``.

    ``rows``: in the order of keys.  No pairs at all, if no row has an earlier one.
    """
    fits = np.flatnonzero(rows.bits >> step & 1)
    row, back = [], []
    for distance in range(1, REACH + 1):
        some = fits[fits >= distance]
        before = some - distance
        is_pair = (rows.key[before] == rows.key[some]) & (rows.bits[before] >> earlier & 1 != 0)
        row.append(some[is_pair])
        back.append(np.full(row[-1].size, distance))
    if any(each.size for each in row):
        row.append(fits)
        back.append(np.zeros(fits.size, np.int64))
    return Pairs(np.concatenate(row), np.concatenate(back))


@dataclass(frozen=True)
class NearAnswers:
    """What is known of the rows of a batch.

    Args:
        earlier: the earlier step by step.
        holds: by step, for each row a bit for each distance at which the condition holds.
        is_known: the same for the distances that were evaluated.
        numbers: of rows, by place.
    """

    earlier: Mapping[int, int]
    holds: Mapping[int, Sequence[int]]
    is_known: Mapping[int, Sequence[int]]
    numbers: Mapping[int, int]

    def answer(self, step: int, place: int, refs: Refs) -> bool | None:
        """Return whether the condition of a step holds for a row and a partial match, if known."""
        if step not in self.holds:
            return None
        number = self.numbers[place]
        back = self._back(self.earlier[step], number, refs)
        if not self.is_known[step][number] >> back & 1:
            return None
        return bool(self.holds[step][number] >> back & 1)

    def _back(self, earlier: int, number: int, refs: Refs) -> int:
        """Return how far back the last row of a step is, 0 without one."""
        for ref in reversed(refs):
            if step_of(ref) == earlier:
                before = self.numbers.get(place_of(ref))
                return REACH + 1 if before is None else min(number - before, REACH + 1)
        return 0


NOTHING_NEAR = NearAnswers({}, {}, {}, {})
