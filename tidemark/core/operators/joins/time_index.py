"""The time index: rows by key and event time, in sorted arrays that are merged by size.

An entry is the hash of a key, an event time and the row's place.  A run has its entries in order of
hash and time.  So the rows of a key within an interval are found by a search for the hash, and one
among the times of its entries.  The hash is valid in this process only, and candidates are compared
by key (core/state/README.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tidemark.core.state.blocks import size_tier
from tidemark.core.state.keyed_lines import Hashes, Mask, Numbers, ranges

_MANY = 4
"""Number of runs of similar size that are merged."""

_FEW = 4_096
"""Entries; all smaller runs count as of similar size."""

_LARGE = 1 << 19
"""Maximum entries of a merged run, so that no merge takes long."""

_SPREAD = 4
"""Minimum size of a filter, by number of hashes."""

_RANK_BITS = 62

_EACH = 3
"""Mean number of entries of a key up to which a search looks at each of them."""


class Filter(NamedTuple):
    """Which hashes a set may contain, by their first bits; at most a quarter of all others pass.

    Most rows have no partner in a run.  A search for their hashes would take several times as long.
    """

    shift: np.uint64
    marks: Mask

    @classmethod
    def of(cls, hashes: Hashes) -> "Filter":
        """Return the filter of some hashes."""
        bits = (_SPREAD * hashes.size).bit_length()
        shift = np.uint64(64 - bits)
        marks = np.zeros(1 << bits, np.bool_)
        marks[(hashes >> shift).view(np.int64)] = True
        return cls(shift, marks)

    def passed(self, hashes: Hashes) -> Numbers:
        """Return the positions of the hashes that the set may contain."""
        return np.flatnonzero(self.marks[(hashes >> self.shift).view(np.int64)])


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Entries in order of hash and time.

    ``hashes``: the distinct hashes, ascending.  ``starts``: the position of the first entry of
    each, and the number of entries.  ``at_ms``, ``place``: by entry.  ``filter``: of ``hashes``.
    """

    hashes: Hashes
    starts: Numbers
    at_ms: Numbers
    place: Numbers
    filter: Filter

    @classmethod
    def of(cls, hashes: Hashes, at_ms: Numbers, place: Numbers) -> "Run":
        """Return a run of some entries."""
        order = _by_hash(hashes)
        return cls._of_sorted(hashes[order], at_ms[order], place[order])

    @classmethod
    def merged(cls, runs: "list[Run]") -> "Run":
        """Return one run of the entries of several."""
        hashes = np.concatenate([run.hash_of_each for run in runs])
        at_ms = np.concatenate([run.at_ms for run in runs])
        place = np.concatenate([run.place for run in runs])
        order = np.argsort(hashes, kind="stable")  # timsort: it merges what is in order
        return cls._of_sorted(hashes[order], at_ms[order], place[order])

    @classmethod
    def _of_sorted(cls, hashes: Hashes, at_ms: Numbers, place: Numbers) -> "Run":
        """Return a run of entries in order of hash; ``at_ms`` and ``place`` are changed."""
        again = hashes[1:] == hashes[:-1]
        if again.any():
            several = np.flatnonzero(np.append(again, False) | np.append(False, again))
            key = np.add.accumulate(~again[several[1:] - 1], dtype=np.int64)
            by_time = _by_key_and_time(np.append(0, key), at_ms[several])
            at_ms[several], place[several] = at_ms[several[by_time]], place[several[by_time]]
        return cls._in_order(hashes, at_ms, place)

    @classmethod
    def _in_order(cls, hashes: Hashes, at_ms: Numbers, place: Numbers) -> "Run":
        """Return a run of entries in order of hash and time."""
        begins = np.append(True, hashes[1:] != hashes[:-1])[: hashes.size]
        starts = np.append(np.flatnonzero(begins), hashes.size)
        distinct = hashes[begins]
        return cls(distinct, starts, at_ms, place, Filter.of(distinct))

    @property
    def hash_of_each(self) -> Hashes:
        """The hash of each entry."""
        return self.hashes.repeat(np.diff(self.starts))

    def moved(self, first: int) -> "Run":
        """Return the run with places that begin at ``first``, not at 0."""
        return replace(self, place=self.place + first)

    def remapped(self, moved: Numbers) -> "Run | None":
        """Return the run with new places; entries whose place is gone, below 0, are left out."""
        place = moved[self.place]
        kept = place >= 0
        if kept.all():
            return replace(self, place=place)
        if not kept.any():
            return None
        return Run._in_order(self.hash_of_each[kept], self.at_ms[kept], place[kept])

    def find(self, searching: "Run", low_ms: Numbers, high_ms: Numbers) -> "Matches":
        """Return the entries that rows find between two times, both included.

        ``searching``: a run whose places number its rows, as ``low_ms`` and ``high_ms`` do.
        """
        number = self.filter.passed(searching.hashes)
        hashes = searching.hashes[number]
        key = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        known = self.hashes[key] == hashes
        number, key = number[known], key[known]
        first = searching.starts[number]
        count = searching.starts[number + 1] - first
        row, key = searching.place[ranges(first, count)], key.repeat(count)
        begin, stop = self._between(key, low_ms[row], high_ms[row])
        some = begin < stop
        return Matches(row[some], begin[some], (stop - begin)[some], self.place)

    def _between(self, key: Numbers, low_ms: Numbers, high_ms: Numbers) -> tuple[Numbers, Numbers]:
        """Return the first entries of keys at or after ``low_ms``, and after ``high_ms``."""
        begin, left = self.starts[key], self.starts[key + 1] - self.starts[key]
        if int(left.sum()) <= _EACH * key.size:
            before, until = _counted(self.at_ms, begin, left, low_ms, high_ms)
            return begin + before, begin + until
        asked_ms = np.concatenate([low_ms, high_ms + 1])
        begin, left = np.concatenate([begin, begin]), np.concatenate([left, left])
        for _ in range(int(left.max(initial=0)).bit_length()):  # a binary search in each key
            half = (left + 1) >> 1
            passed = self.at_ms.take(begin + half - 1, mode="clip") < asked_ms
            passed &= left > 0
            begin += half * passed
            left = np.where(passed, left - half, half - 1)
        return begin[: key.size], begin[key.size :]


def _by_hash(hashes: Hashes) -> Numbers:
    """Return the order of entries by hash.

    Numbers with the first bits of a hash and the position of the entry sort twice as fast.
    """
    bits = np.uint64(hashes.size.bit_length())
    numbers = (hashes >> bits << bits) | np.arange(hashes.size, dtype=np.uint64)
    numbers.sort()
    order: Numbers = (numbers & ((np.uint64(1) << bits) - np.uint64(1))).view(np.int64)
    ordered = hashes[order]
    if (ordered[1:] < ordered[:-1]).any():  # two hashes differ in their last bits only
        return np.argsort(hashes)
    return order


def _counted(
    at_ms: Numbers, begin: Numbers, count: Numbers, low_ms: Numbers, high_ms: Numbers
) -> tuple[Numbers, Numbers]:
    """Return, of the entries of each range, how many are before ``low_ms``, and until ``high_ms``.

    It looks at every entry of the ranges, none of which is empty.
    """
    if int(count.max(initial=0)) <= 1:
        only_ms = at_ms[begin]
        return (only_ms < low_ms).astype(np.int64), (only_ms <= high_ms).astype(np.int64)
    first = np.add.accumulate(count) - count
    each_ms, row = at_ms[ranges(begin, count)], np.arange(count.size).repeat(count)
    before = np.add.reduceat(each_ms < low_ms[row], first, dtype=np.int64)
    until = np.add.reduceat(each_ms <= high_ms[row], first, dtype=np.int64)
    return before, until


def _by_key_and_time(key: Numbers, at_ms: Numbers) -> Numbers:
    """Return the order of entries by key, which ascends, and by time."""
    first_ms, last_ms = int(at_ms.min()), int(at_ms.max())
    span = last_ms - first_ms + 1
    if (int(key[-1]) + 1) * span >= 1 << _RANK_BITS:
        return np.lexsort((at_ms, key))
    return np.argsort(key * span + (at_ms - first_ms), kind="stable")


class Matches(NamedTuple):
    """The entries of a run that rows find.

    ``row``: of rows that find some.  ``begin``, ``counts``: the entries of each.  ``place``: of all
    entries of the run.
    """

    row: Numbers
    begin: Numbers
    counts: Numbers
    place: Numbers


def find(searching: Run, low_ms: Numbers, high_ms: Numbers, runs: Sequence[Run]) -> list[Matches]:
    """Return what the rows of a run find in others; see ``Run.find``."""
    return [run.find(searching, low_ms, high_ms) for run in runs]


def counts_of(matches: Sequence[Matches], size: int) -> Numbers:
    """Return how many entries each row finds; ``size``: the number of rows."""
    counts = np.zeros(size, np.int64)
    for each in matches:
        counts[each.row] += each.counts
    return counts


def pairs_of(matches: Sequence[Matches]) -> tuple[Numbers, Numbers]:
    """Return the row and the place of each pair of a row and an entry that it finds."""
    rows = [np.repeat(each.row, each.counts) for each in matches]
    places = [each.place[ranges(each.begin, each.counts)] for each in matches]
    return np.concatenate([_NONE, *rows]), np.concatenate([_NONE, *places])


_NONE = np.empty(0, np.int64)


class TimeIndex:
    """The places of rows by hash and time."""

    def __init__(self) -> None:
        """Start empty."""
        self._runs: list[Run] = []

    @property
    def runs(self) -> Sequence[Run]:
        """All runs."""
        return self._runs

    def put(self, run: Run) -> None:
        """Add a run that is not empty."""
        self._runs.append(run)
        self._runs.sort(key=lambda run: run.place.size, reverse=True)
        begin = size_tier([run.place.size for run in self._runs], _MANY, _FEW)
        if begin is not None:
            merged = self._runs[begin : begin + _MANY]
            if sum(run.place.size for run in merged) <= _LARGE:
                self._runs[begin : begin + _MANY] = [Run.merged(merged)]

    def remap(self, moved: Numbers) -> None:
        """Give entries the places ``moved[place]``; those below 0 are dropped."""
        remapped = [run.remapped(moved) for run in self._runs]
        self._runs = [run for run in remapped if run is not None]

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        for run in self._runs:
            assert run.place.size == run.at_ms.size == run.starts[-1] > 0, "an empty or uneven run"
            assert run.starts.size == run.hashes.size + 1, "an uneven run"
            assert bool((np.diff(run.starts) > 0).all()), "a hash without entries"
            key = np.arange(run.hashes.size).repeat(np.diff(run.starts))
            order = np.lexsort((run.at_ms, run.hashes[key]))
            assert bool((run.at_ms[order] == run.at_ms).all()), "entries out of order"
            assert bool((run.hashes[1:] > run.hashes[:-1]).all()), "hashes out of order"
            assert run.filter.passed(run.hashes).size == run.hashes.size, "a hash is filtered out"
