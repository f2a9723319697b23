"""Pairs: which new rows of a join pair with which rows, and which rows have too many partners."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidemark.core.operators.joins.side_rows import HIGH, LOW, REACH, NewRows, SideRows
from tidemark.core.operators.joins.time_index import Run, Search, runs_of
from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.segment import EVENT_TIME


class Arrived(NamedTuple):
    """New rows of one side, in log order.

    ``order``: of each row, its place in log order over both sides.  ``segment``: the number of its
    segment in a batch, else 0.
    """

    new: NewRows
    order: Numbers
    segment: Numbers

    def at(self, kept: Mask) -> "Arrived":
        """Return the rows that a mask marks."""
        if kept.all():
            return self
        return Arrived(self.new.at(kept), self.order[kept], self.segment[kept])


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

    def accepted(self, left: Arrived, right: Arrived, max_pairs: int) -> tuple[Mask, Mask]:
        """Mark the new rows that have at most ``max_pairs`` accepted partners before them."""
        of_left, of_right = self._searches(left, right)
        sizes = left.order.size, right.order.size
        old = of_left.counts(self.right.runs, sizes[0]), of_right.counts(self.left.runs, sizes[1])
        new = of_left.counts(_runs(right), sizes[0]), of_right.counts(_runs(left), sizes[1])
        most = max(int((a + b).max(initial=0)) for a, b in zip(old, new, strict=True))
        if most <= max_pairs:
            return np.ones(sizes[0], np.bool_), np.ones(sizes[1], np.bool_)
        # Rows with too many older partners are refused before pairs take memory.
        least = max_pairs + self.self_join
        one = old[0] <= least
        other = np.ones(right.order.size, np.bool_) if self.own_reach else old[1] <= least
        left, right = left.at(one), right.at(other)
        one[one], other[other] = self._with_few(left, right, max_pairs)
        return one, other

    def _with_few(self, left: Arrived, right: Arrived, max_pairs: int) -> tuple[Mask, Mask]:
        """Mark the accepted rows: a row counts for later ones only if it is accepted itself.

        Each round decides at least the first row that is open, and mostly all of them.
        """
        found = self.pairs(left, right)
        lefts, rights = left.order.size, right.order.size
        # New rows have numbers, those of the left side first; older rows have -1.
        left_row = _of_new(np.arange(lefts), found.left, self.left.next_place)
        right_row = _of_new(np.arange(rights) + lefts, found.right, self.right.next_place)
        left_order = _of_new(left.order, found.left, self.left.next_place)
        row = np.where(left_order == found.order, left_row, right_row)
        partner = np.where(left_order == found.order, right_row, left_row)
        accepted, refused = (np.zeros(lefts + rights + 1, np.bool_) for _ in range(2))
        accepted[-1] = True
        while not (accepted | refused).all():
            most = np.bincount(row[~refused[partner]], minlength=accepted.size)
            least = np.bincount(row[accepted[partner]], minlength=accepted.size)
            accepted |= (most <= max_pairs) & ~refused
            refused |= (least > max_pairs) & ~accepted
        return accepted[:lefts], accepted[lefts:-1]

    def _searches(self, left: Arrived, right: Arrived) -> tuple[Search, Search]:
        """Return searches of new left rows in the right side, and the other way round."""
        left_ms, right_ms = left.new.at_ms, right.new.at_ms
        reach_ms: Numbers = left.new.facts[REACH]
        return (
            _search(left.new, left_ms + self.lower_ms, left_ms + reach_ms),
            _search(right.new, right_ms - self.upper_ms, right_ms - self.lower_ms),
        )

    def pairs(self, left: Arrived, right: Arrived) -> Pairs:
        """Return the pairs of new rows with rows in the state and with each other.

        They are in order of results: by the order of the later row; its partners by event time and
        identity.  New rows have the places that ``put`` gives them next.
        """
        first_left, first_right = self.left.stage(left.new), self.right.stage(right.new)
        of_left, of_right = self._searches(left, right)
        row, right_place = of_left.pairs([*self.right.runs, *_runs(right, first_right)])
        right_row, place = of_right.pairs(self.left.runs)
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
        segment = np.maximum(
            _of_new(left.segment, lefts, first_left), _of_new(right.segment, rights, first_right)
        )
        pairs = Pairs(lefts, rights, np.maximum(left_order, right_order), segment)
        return pairs.at(self._in_order(pairs, left_order > right_order))

    def _in_reach(self, lefts: Numbers, rights: Numbers) -> Mask:
        """Mark the pairs that a left row's own REACH allows."""
        left = self.left.facts(lefts)
        distance_ms = self.right.facts(rights)[EVENT_TIME] - left[EVENT_TIME]
        within: Mask = distance_ms <= left[REACH]
        return within

    def _same(self, lefts: Numbers, rights: Numbers) -> Mask:
        left, right = self.left.facts(lefts), self.right.facts(rights)
        same: Mask = (left[HIGH] == right[HIGH]) & (left[LOW] == right[LOW])
        return same

    def _in_order(self, pairs: Pairs, left_is_later: Mask) -> Numbers:
        """Return the order of results of pairs."""
        left, right = self.left.facts(pairs.left), self.right.facts(pairs.right)
        partner_ms = np.where(left_is_later, right[EVENT_TIME], left[EVENT_TIME])
        low = np.where(left_is_later, right[LOW], left[LOW])
        return np.lexsort((low, partner_ms, pairs.order))


def _search(new: NewRows, low_ms: Numbers, high_ms: Numbers) -> Search:
    keyed = new.keyed
    return Search(keyed, new.hashes, new.at_ms[keyed], low_ms[keyed], high_ms[keyed])


def _runs(arrived: Arrived, first: int = 0) -> list[Run]:
    """Return runs of new rows; ``first``: the place of the first one."""
    new = arrived.new
    return [run for _, run in runs_of(new.hashes, new.at_ms[new.keyed], new.keyed + first)]


def _of_new(values: Numbers, places: Numbers, first: int) -> Numbers:
    """Return the values of new rows by place, and -1 for older rows."""
    return np.append(values, -1)[np.where(places >= first, places - first, values.size)]
