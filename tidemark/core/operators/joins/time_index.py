"""The time index: rows by key and event time, in sorted arrays that are merged by size.

An entry is the hash of a key, an event time and the row's place.  A run sorts its entries by one
number: the position of the hash among those of the run, and the time.  So the rows of a key within
an interval are found by two binary searches.  The hash is valid in this process only, and
candidates are compared by key (core/state/README.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidemark.core.state.blocks import size_tier
from tidemark.core.state.keyed_lines import Hashes, Mask, Numbers, ranges

_MANY = 4
"""Number of runs of similar size that are merged."""

_FEW = 4_096
"""Entries; all smaller runs count as of similar size."""

_LARGE = 1 << 19
"""Maximum entries of a merged run, so that no merge takes long."""

_ERA_BITS = 42
"""A run spans at most 2^42 ms, 139 years, so that key and time fit one number."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Entries in order of hash and time.

    ``hashes``: the distinct hashes, ascending.  ``rank``: position of the hash * ``span`` + time -
    ``first_ms``, ascending.  ``place``: of the row.
    """

    hashes: Hashes
    rank: Numbers
    place: Numbers
    first_ms: int
    span: int

    @property
    def key(self) -> Numbers:
        """The position of each entry's hash among the distinct ones."""
        return self.rank // self.span

    @property
    def at_ms(self) -> Numbers:
        """The event time of each entry."""
        return self.rank % self.span + self.first_ms

    @classmethod
    def of(cls, hashes: Hashes, at_ms: Numbers, place: Numbers) -> "Run":
        """Return a run of some entries."""
        distinct, key = np.unique(hashes, return_inverse=True)
        return cls._sorted(distinct, key, at_ms, place)

    @classmethod
    def _sorted(cls, distinct: Hashes, key: Numbers, at_ms: Numbers, place: Numbers) -> "Run":
        first_ms, last_ms = int(at_ms.min()), int(at_ms.max())
        span = last_ms - first_ms + 2
        rank = key * span + (at_ms - first_ms)
        order = np.argsort(rank, kind="stable")  # timsort: it merges runs that are in order
        return cls(distinct, rank[order], place[order], first_ms, span)

    @classmethod
    def merged(cls, runs: "list[Run]") -> "Run":
        """Return one run of the entries of several."""
        distinct = np.unique(np.concatenate([run.hashes for run in runs]))
        key = np.concatenate([np.searchsorted(distinct, run.hashes)[run.key] for run in runs])
        at_ms = np.concatenate([run.at_ms for run in runs])
        return cls._sorted(distinct, key, at_ms, np.concatenate([run.place for run in runs]))

    def remapped(self, moved: Numbers) -> "Run | None":
        """Return the run with new places; entries whose place is gone, below 0, are left out."""
        place = moved[self.place]
        kept = place >= 0
        if kept.all():
            return Run(self.hashes, self.rank, place, self.first_ms, self.span)
        if not kept.any():
            return None
        hashes = self.hashes[self.key[kept]]
        return Run.of(hashes, self.at_ms[kept], place[kept])

    def find(
        self, hashes: Hashes, key: Numbers, low_ms: Numbers, high_ms: Numbers
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Return the searching rows that find some, the first position, and the number found."""
        at = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        found: Mask = self.hashes[at] == hashes
        if not found.any():
            return _NONE, _NONE, _NONE
        searching = np.flatnonzero(found[key])
        base = at[key[searching]] * self.span
        low = np.clip(low_ms[searching] - self.first_ms, 0, self.span - 1)
        high = np.clip(high_ms[searching] - self.first_ms, -1, self.span - 1)
        begin = np.searchsorted(self.rank, base + low)
        count = np.searchsorted(self.rank, base + high, "right") - begin
        some = count > 0
        return searching[some], begin[some], count[some]


_NONE = np.empty(0, np.int64)


class Search:
    """Rows that search, in order of hash and time, which makes binary searches fast."""

    def __init__(
        self, rows: Numbers, hashes: Hashes, at_ms: Numbers, low_ms: Numbers, high_ms: Numbers
    ) -> None:
        """Take the numbers of rows, and the times that each searches, both ends included."""
        self._hashes, key = np.unique(hashes, return_inverse=True)
        order = np.lexsort((at_ms, key))
        self._rows, self._key = rows[order], key[order]
        self._low_ms, self._high_ms = low_ms[order], high_ms[order]

    def _find(self, run: Run) -> tuple[Numbers, Numbers, Numbers]:
        searching, begin, count = run.find(self._hashes, self._key, self._low_ms, self._high_ms)
        return self._rows[searching], begin, count

    def counts(self, runs: Sequence[Run], size: int) -> Numbers:
        """Return how many entries each row finds; ``size``: the number of rows."""
        counts = np.zeros(size, np.int64)
        for run in runs:
            searching, _, count = self._find(run)
            counts[searching] += count
        return counts

    def pairs(self, runs: Sequence[Run]) -> tuple[Numbers, Numbers]:
        """Return the row and the place of each pair of a row and an entry that it finds."""
        numbers, places = [_NONE], [_NONE]
        for run in runs:
            searching, begin, count = self._find(run)
            numbers.append(np.repeat(searching, count))
            places.append(run.place[ranges(begin, count)])
        return np.concatenate(numbers), np.concatenate(places)


def runs_of(hashes: Hashes, at_ms: Numbers, place: Numbers) -> list[tuple[int, Run]]:
    """Return runs of entries with the number of their era."""
    era = at_ms >> _ERA_BITS
    runs = []
    for number in np.unique(era):
        some = era == number
        runs.append((int(number), Run.of(hashes[some], at_ms[some], place[some])))
    return runs


class TimeIndex:
    """The places of rows by hash and time."""

    def __init__(self) -> None:
        """Start empty."""
        self._eras: dict[int, list[Run]] = {}

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [run for runs in self._eras.values() for run in runs]

    def put(self, hashes: Hashes, at_ms: Numbers, place: Numbers) -> None:
        """Add entries."""
        for era, run in runs_of(hashes, at_ms, place):
            runs = self._eras.setdefault(era, [])
            runs.append(run)
            self._merge(runs)

    def _merge(self, runs: list[Run]) -> None:
        runs.sort(key=lambda run: run.place.size, reverse=True)
        begin = size_tier([run.place.size for run in runs], _MANY, _FEW)
        if begin is not None:
            merged = runs[begin : begin + _MANY]
            if sum(run.place.size for run in merged) <= _LARGE:
                runs[begin : begin + _MANY] = [Run.merged(merged)]

    def remap(self, moved: Numbers) -> None:
        """Give entries the places ``moved[place]``; those below 0 are dropped."""
        eras = {
            number: [kept for run in runs if (kept := run.remapped(moved)) is not None]
            for number, runs in self._eras.items()
        }
        self._eras = {number: runs for number, runs in eras.items() if runs}

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        for run in self.runs:
            assert run.place.size == run.rank.size > 0, "an empty or uneven run"
            assert bool((run.rank[1:] >= run.rank[:-1]).all()), "entries out of order"
