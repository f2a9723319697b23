"""The hash index: slots by hash, in few sorted arrays that are merged as they become many.

A slot is the number of a line (line_table.py).  A slot has one entry with its hash.  The entry
stays when the line dies, and is dropped in a merge; only then may the slot get another hash.  A
look-up is a binary search per hash and array.
"""

from dataclasses import dataclass

import numpy as np

from tidemark.core.state.keyed_lines import Hashes, Mask, Numbers, ranges

_LARGER = 4
"""Each array has more than this many times the entries of the next array ..."""

_FEW = 4_096
"""... and, except for the last array, more entries than this."""


@dataclass(frozen=True, slots=True)
class _Level:
    hashes: Hashes
    slots: Numbers
    unique: bool

    @classmethod
    def of(cls, hashes: Hashes, slots: Numbers) -> "_Level":
        """Return a level of entries in order of hash."""
        return cls(hashes, slots, bool((hashes[1:] != hashes[:-1]).all()))

    def find(self, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """Return the slots of hashes, and for each slot the position of its hash in ``hashes``."""
        first = np.searchsorted(self.hashes, hashes)
        place = np.flatnonzero(self.hashes.take(first, mode="clip") == hashes)
        first = first[place]
        if self.unique:
            return self.slots[first], place
        count = np.searchsorted(self.hashes, hashes[place], "right") - first
        return self.slots[ranges(first, count)], np.repeat(place, count)


class HashIndex:
    """Slots by hash, as sorted levels, largest first."""

    def __init__(self) -> None:
        """Start empty."""
        self._levels: list[_Level] = []  # largest first
        self.size = 0

    def find(self, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """Return the slots of hashes, and for each slot the position of its hash in ``hashes``.

        Slots of dead lines may be among them.  Sorted hashes are fastest.
        """
        none = np.empty(0, np.int64)
        found = [level.find(hashes) for level in self._levels]
        slots, places = zip(*found, strict=True) if found else ((), ())
        return np.concatenate([none, *slots]), np.concatenate([none, *places])

    def add(self, hashes: Hashes, slots: Numbers, alive: Mask) -> Numbers:
        """Add slots in order of hash; return the dead slots that merges dropped.

        ``alive``: by slot, whether its line lives.
        """
        self._levels.append(_Level.of(hashes, slots))
        self.size += slots.size
        freed = []
        while len(self._levels) > 1 and self._crowded():
            freed.append(self._merge(self._levels[-2:], alive))
        return np.concatenate([np.empty(0, np.int64), *freed])

    def _crowded(self) -> bool:
        older, newer = self._levels[-2].slots.size, self._levels[-1].slots.size
        return older <= max(newer * _LARGER, _FEW)

    def drop_dead(self, alive: Mask) -> Numbers:
        """Drop the entries of all dead slots; return these slots."""
        return self._merge(self._levels, alive) if self._levels else np.empty(0, np.int64)

    def _merge(self, levels: list[_Level], alive: Mask) -> Numbers:
        """Replace the last levels, ``levels``, by one level without dead slots; return these."""
        hashes = np.concatenate([level.hashes for level in levels])
        slots = np.concatenate([level.slots for level in levels])
        lives = alive[slots]
        freed: Numbers = slots[~lives]
        hashes, slots = hashes[lives], slots[lives]
        order = np.argsort(hashes, kind="stable")  # timsort: it merges runs that are in order
        del self._levels[-len(levels) :]
        if order.size:
            self._levels.append(_Level.of(hashes[order], slots[order]))
        self.size -= freed.size
        return freed

    def validate(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        every = [np.empty(0, np.int64), *(level.slots for level in self._levels)]
        slots = np.concatenate(every)
        assert slots.size == self.size, "entries miscounted"
        assert np.unique(slots).size == slots.size, "a slot has two entries"
        for level in self._levels:
            assert bool((level.hashes[1:] >= level.hashes[:-1]).all()), "entries out of order"
