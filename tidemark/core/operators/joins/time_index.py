"""The time index: rows by key and event time, in sorted arrays that are merged by size.

An entry is the hash of a key, an event time and the row's place.  A run sorts its entries by one
number: the position of the hash among those of the run, and the time.  So the rows of a key within
an interval are found by two binary searches.  The hash is valid in this process only, and
candidates are compared by key (core/state/README.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidemark.core.state.blocks import size_tier
from tidemark.core.state.keyed_lines import Hashes, Numbers, ranges

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
    def is_distinct(self) -> bool:
        """Whether each entry has a hash of its own."""
        return self.hashes.size == self.rank.size

    @property
    def at_ms(self) -> Numbers:
        """The event time of each entry."""
        return self.rank % self.span + self.first_ms

    @classmethod
    def of(cls, hashes: Hashes, at_ms: Numbers, place: Numbers) -> "Run":
        """Return a run of some entries."""
        order = np.argsort(hashes)
        distinct, key = _distinct(hashes[order])
        first_ms, span, rank = _ranked(key, at_ms[order])
        if (rank[1:] < rank[:-1]).any():  # times of a key are out of order
            by_time = np.argsort(rank, kind="stable")
            order, rank = order[by_time], rank[by_time]
        return cls(distinct, rank, place[order], first_ms, span)

    @classmethod
    def merged(cls, runs: "list[Run]") -> "Run":
        """Return one run of the entries of several."""
        hashes = np.concatenate([run.hashes for run in runs])
        by_hash = np.argsort(hashes, kind="stable")  # timsort: it merges what is in order
        distinct, position = _distinct(hashes[by_hash])
        key_of = np.empty(hashes.size, np.int64)
        key_of[by_hash] = position
        begins = np.add.accumulate([0, *(run.hashes.size for run in runs)])
        key = key_of[np.concatenate([run.key + at for run, at in zip(runs, begins, strict=False)])]
        place = np.concatenate([run.place for run in runs])
        first_ms, span, rank = _ranked(key, np.concatenate([run.at_ms for run in runs]))
        order = np.argsort(rank, kind="stable")
        return cls(distinct, rank[order], place[order], first_ms, span)

    def moved(self, first: int) -> "Run":
        """Return the run with places that begin at ``first``, not at 0."""
        return Run(self.hashes, self.rank, self.place + first, self.first_ms, self.span)

    def remapped(self, moved: Numbers) -> "Run | None":
        """Return the run with new places; entries whose place is gone, below 0, are left out."""
        place = moved[self.place]
        kept = place >= 0
        if kept.all():
            return Run(self.hashes, self.rank, place, self.first_ms, self.span)
        if not kept.any():
            return None
        key = self.key[kept]
        used = np.zeros(self.hashes.size, np.bool_)
        used[key] = True
        position = np.add.accumulate(used, dtype=np.int64) - 1
        rank = position[key] * self.span + self.rank[kept] % self.span
        return Run(self.hashes[used], rank, place[kept], self.first_ms, self.span)

    def find(self, searching: "Run", low_ms: Numbers, high_ms: Numbers) -> "Matches":
        """Return the entries that rows find between two times, both included.

        ``searching``: a run whose places number its rows, as ``low_ms`` and ``high_ms`` do.
        """
        at = np.minimum(np.searchsorted(self.hashes, searching.hashes), self.hashes.size - 1)
        known = self.hashes[at] == searching.hashes
        entry = np.flatnonzero(known if searching.is_distinct else known[searching.key])
        row = searching.place[entry]
        key = at[entry if searching.is_distinct else searching.key[entry]]
        low = np.clip(low_ms[row] - self.first_ms, 0, self.span - 1)
        high = np.clip(high_ms[row] - self.first_ms, -1, self.span - 1)
        begin = np.searchsorted(self.rank, key * self.span + low)
        count = np.searchsorted(self.rank, key * self.span + high, "right") - begin
        some = count > 0
        return Matches(row[some], begin[some], count[some], self.place)


def _distinct(ascending: Hashes) -> tuple[Hashes, Numbers]:
    """Return the distinct ones of some hashes, and the position of each among them."""
    begins = np.append(True, ascending[1:] != ascending[:-1])[: ascending.size]
    return ascending[begins], np.add.accumulate(begins, dtype=np.int64) - 1


def _ranked(key: Numbers, at_ms: Numbers) -> tuple[int, int, Numbers]:
    """Return the first time, the span of times, and the rank of entries."""
    first_ms = int(at_ms.min())
    span = int(at_ms.max()) - first_ms + 2
    return first_ms, span, key * span + (at_ms - first_ms)


class Matches(NamedTuple):
    """The entries of a run that rows find.

    ``row``: of rows that find some.  ``begin``, ``counts``: the entries of each.  ``place``: of all
    entries of the run.
    """

    row: Numbers
    begin: Numbers
    counts: Numbers
    place: Numbers


def find(
    searching: Sequence[Run], low_ms: Numbers, high_ms: Numbers, runs: Sequence[Run]
) -> list[Matches]:
    """Return what the rows of some runs find in others; see ``Run.find``."""
    return [run.find(each, low_ms, high_ms) for each in searching for run in runs]


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

Eras = Mapping[int, Run]
"""Runs by the number of their era."""


def eras_of(hashes: Hashes, at_ms: Numbers, place: Numbers) -> Eras:
    """Return runs of entries by era."""
    era = at_ms >> _ERA_BITS
    if era.size and era.min() == era.max():
        return {int(era[0]): Run.of(hashes, at_ms, place)}
    eras = {}
    for number in np.unique(era):
        some = era == number
        eras[int(number)] = Run.of(hashes[some], at_ms[some], place[some])
    return eras


class TimeIndex:
    """The places of rows by hash and time."""

    def __init__(self) -> None:
        """Start empty."""
        self._eras: dict[int, list[Run]] = {}

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [run for runs in self._eras.values() for run in runs]

    def put(self, eras: Eras) -> None:
        """Add runs."""
        for era, run in eras.items():
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
