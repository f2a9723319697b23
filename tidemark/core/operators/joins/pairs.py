"""Pairs: which new rows of a join pair with which rows, and which rows have too many partners."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.operators.joins.new_rows import NewRows
from tidemark.core.operators.joins.side_rows import SideRows
from tidemark.core.operators.joins.time_index import Matches, Run, counts_of, find, pairs_of
from tidemark.core.operators.operator import Frames, TooManyResultsError
from tidemark.core.operators.portions import span_of
from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.row_watermarks import ORDER

_PORTION_PAIRS = 1 << 17
"""Pairs that are made at once, unless one row has more."""


class Arrived(NamedTuple):
    """New rows of one side, in log order.

    ``order``: of each row, its place in log order over both sides.  ``segment``: the number of its
    segment in a batch, else 0.  ``taken``: the number, among rows that are taken or refused as a
    whole, of the one that each is of: one row of a stream is a row of each of its windows.
    """

    new: NewRows
    order: Numbers
    segment: Numbers
    taken: Numbers


class Pairs(NamedTuple):
    """Pairs of rows in the interval whose keys have the same hash.

    ``left``, ``right``: places.  ``order``, ``segment``: of the row that came later.
    """

    left: Numbers
    right: Numbers
    order: Numbers
    segment: Numbers

    def at(self, index: Numbers | Mask) -> "Pairs":
        """Return the pairs at positions ``index``."""
        return Pairs(*(column[index] for column in self))


class Found(NamedTuple):
    """What new rows find.

    ``with_right``: rows of the right side, old and new, that new left rows find.  ``with_left``:
    old rows of the left side that new right rows find.  ``most``: no row finds more.
    """

    with_right: list[Matches]
    with_left: list[Matches]
    most: int

    def require_few(self, left: Arrived, right: Arrived, sides: Frames) -> None:
        """Check that the rows of ``sides`` have few pairs; one row may have many.

        A pair of new rows counts at the place of the left one.

        Raises:
            TooManyResultsError: they have too many.
        """
        matches = [*self.with_right, *self.with_left]
        if sum(int(each.counts.sum()) for each in matches) <= _PORTION_PAIRS or span_of(sides) <= 1:
            return
        orders = [left.order] * len(self.with_right) + [right.order] * len(self.with_left)
        order = np.concatenate([o[each.row] for o, each in zip(orders, matches, strict=True)])
        counts = np.concatenate([each.counts for each in matches])
        by_order = np.argsort(order, kind="stable")
        over = np.searchsorted(np.add.accumulate(counts[by_order]), _PORTION_PAIRS, "right")
        first = min(int(rows[ORDER][0]) for rows in sides.values() if rows.height)
        raise TooManyResultsError(max(int(order[by_order[over]]) - first, 1))


@dataclass(frozen=True, slots=True)
class Matcher:
    """Finds the pairs of new rows.

    Args:
        left, right: the rows of the sides.
        lower_ms: the least right time minus left time.
        upper_ms: the largest; a left row may have a smaller one, its REACH.
        own_reach: whether left rows have a REACH of their own.
        self_join: whether two rows of one identity are the same row, which is no pair.
    """

    left: SideRows
    right: SideRows
    lower_ms: int
    upper_ms: int
    own_reach: bool
    self_join: bool

    def find(self, left: Arrived, right: Arrived) -> Found:
        """Return what new rows find, which have the places that ``put`` gives them next."""
        right_runs = [*self.right.runs, right.new.run.moved(self.right.next_place)]
        with_right = self._of_left(left, right_runs)
        with_left = self._of_right(right, self.left.runs)
        most_left = counts_of(with_right, left.order.size).max(initial=0)
        most_right = counts_of(with_left, right.order.size).max(initial=0) + left.order.size
        return Found(with_right, with_left, int(max(most_left, most_right)))

    def _of_left(self, left: Arrived, runs: Sequence[Run]) -> list[Matches]:
        at_ms, reach_ms = left.new.facts.at_ms, left.new.facts.reach_ms
        return find(left.new.keyed, at_ms + self.lower_ms, at_ms + reach_ms, runs)

    def _of_right(self, right: Arrived, runs: Sequence[Run]) -> list[Matches]:
        at_ms = right.new.facts.at_ms
        return find(right.new.keyed, at_ms - self.upper_ms, at_ms - self.lower_ms, runs)

    def not_hot(self, left: Arrived, right: Arrived, max_pairs: int) -> tuple[Mask, Mask]:
        """Mark taken rows, without those that certainly have over ``max_pairs`` old partners.

        It needs no memory for pairs.
        """
        most = max_pairs + self.self_join
        of_left = counts_of(self._of_left(left, self.right.runs), left.order.size)
        of_right = counts_of(self._of_right(right, self.left.runs), right.order.size)
        most_left = _most_by(left.taken, of_left, _count(left.taken))
        most_right = _most_by(right.taken, of_right, _count(right.taken))
        return most_left <= most, (most_right <= most) | self.own_reach

    def accepted(
        self, found: Found, left: Arrived, right: Arrived, max_pairs: int
    ) -> tuple[Mask, Mask]:
        """Mark the taken rows that have at most ``max_pairs`` accepted partners before them.

        The limit holds for each row that they are of.  A row counts for later ones only if it is
        accepted itself.  Each round decides at least the first one that is open, and mostly all.
        """
        pairs = self.pairs(found, left, right)
        lefts, rights = left.order.size, right.order.size
        # New rows have numbers, those of the left side first; older rows have -1.
        left_row = _of_new(np.arange(lefts), pairs.left, self.left.next_place)
        right_row = _of_new(np.arange(rights) + lefts, pairs.right, self.right.next_place)
        left_order = _of_new(left.order, pairs.left, self.left.next_place)
        row = np.where(left_order == pairs.order, left_row, right_row)
        taken_left = _count(left.taken)
        both = taken_left + _count(right.taken)
        taken = np.concatenate([left.taken, right.taken + taken_left, [both]])
        partner = taken[np.where(left_order == pairs.order, right_row, left_row)]
        accepted, refused = (np.zeros(both + 1, np.bool_) for _ in range(2))
        accepted[-1] = True
        while not (accepted | refused).all():
            most = np.bincount(row[~refused[partner]], minlength=taken.size)
            least = np.bincount(row[accepted[partner]], minlength=taken.size)
            accepted |= (_most_by(taken, most, both + 1) <= max_pairs) & ~refused
            refused |= (_most_by(taken, least, both + 1) > max_pairs) & ~accepted
        return accepted[:taken_left], accepted[taken_left:-1]

    def pairs(self, found: Found, left: Arrived, right: Arrived) -> Pairs:
        """Return the pairs in order of results.

        The order is that of the later row; its partners are by event time and identity.
        """
        first_left, first_right = self.left.stage(left.new), self.right.stage(right.new)
        row, right_place = pairs_of(found.with_right)
        right_row, place = pairs_of(found.with_left)
        lefts = np.concatenate([row + first_left, place])
        rights = np.concatenate([right_place, right_row + first_right])
        if self.own_reach:
            kept = self._in_reach(lefts, rights)
            lefts, rights = lefts[kept], rights[kept]
        if self.self_join:
            kept = ~self._same(lefts, rights)
            lefts, rights = lefts[kept], rights[kept]
        left_order = _of_new(left.order, lefts, first_left)
        right_order = _of_new(right.order, rights, first_right)
        segment = np.zeros(lefts.size, np.int64)
        if left.segment.any() or right.segment.any():
            segment = np.maximum(
                _of_new(left.segment, lefts, first_left),
                _of_new(right.segment, rights, first_right),
            )
        pairs = Pairs(lefts, rights, np.maximum(left_order, right_order), segment)
        return pairs.at(self._in_order(pairs, left_order > right_order))

    def _in_reach(self, lefts: Numbers, rights: Numbers) -> Mask:
        """Mark the pairs that a left row's own REACH allows."""
        left = self.left.facts(lefts)
        within: Mask = self.right.at_ms(rights) - left.at_ms <= left.reach_ms
        return within

    def _same(self, lefts: Numbers, rights: Numbers) -> Mask:
        left, right = self.left.ids(lefts), self.right.ids(rights)
        same: Mask = (left.high == right.high) & (left.low == right.low)
        return same

    def _in_order(self, pairs: Pairs, left_is_later: Mask) -> Numbers:
        """Return the order of results of pairs."""
        numbers = pairs.order - pairs.order.min(initial=0)
        small = numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
        sort = np.argsort(small, kind="stable")  # a radix sort if they fit 16 bits
        order = small[sort]
        same = np.concatenate([[False], order[1:] == order[:-1], [False]])
        several = np.flatnonzero(same[1:] | same[:-1])  # pairs of rows with several partners
        if several.size:
            some = sort[several]
            sort[several] = some[self._by_partner(pairs.at(some), left_is_later[some])]
        return sort

    def _by_partner(self, pairs: Pairs, left_is_later: Mask) -> Numbers:
        """Return the order of pairs by the later row, then by time and identity of its partner."""
        left_ms, right_ms = self.left.at_ms(pairs.left), self.right.at_ms(pairs.right)
        partner_ms = np.where(left_is_later, right_ms, left_ms)
        rank = pairs.order * partner_ms.size + _dense_rank(partner_ms)
        sort = np.argsort(rank)
        if not (rank[sort][1:] == rank[sort][:-1]).any():
            return sort
        left, right = self.left.ids(pairs.left), self.right.ids(pairs.right)
        return np.lexsort((np.where(left_is_later, right.low, left.low), rank))


class Taken(NamedTuple):
    """The accepted rows of both sides, what they find, and the frames of other ports."""

    left: Arrived
    right: Arrived
    matcher: Matcher
    found: Found
    others: dict[str, pl.DataFrame]


def ranges_of_rows(pairs_until: Numbers, most: int) -> list[tuple[int, int]]:
    """Return ranges of rows with up to ``most`` pairs each, or one row; at least one range.

    ``pairs_until``: the number of pairs of each row and those before it.
    """
    found, begin, done = [], 0, 0
    while begin < pairs_until.size:
        stop = int(np.searchsorted(pairs_until, done + most, "right"))
        stop = max(stop, begin + 1)
        found.append((begin, stop))
        begin, done = stop, int(pairs_until[stop - 1])
    return found or [(0, 0)]


def _count(taken: Numbers) -> int:
    """Return the number of taken rows, of which each has a new row."""
    return int(taken.max(initial=-1)) + 1


def _most_by(taken: Numbers, counts: Numbers, size: int) -> Numbers:
    """Return the highest count of each taken row; ``size``: the number of these."""
    most = np.zeros(size, np.int64)
    np.maximum.at(most, taken, counts)
    return most


def _dense_rank(values: Numbers) -> Numbers:
    """Return the position of each value among the distinct values."""
    order = np.argsort(values)
    ascending = values[order]
    rank = np.empty(values.size, np.int64)
    rank[order] = np.cumsum(np.append(0, ascending[1:] != ascending[:-1])[: values.size])
    return rank


def _of_new(values: Numbers, places: Numbers, first: int) -> Numbers:
    """Return the values of new rows by place, and -1 for older rows."""
    return np.append(values, -1)[np.where(places >= first, places - first, values.size)]
