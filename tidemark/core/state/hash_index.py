"""Slots by hash: few sorted arrays, merged as they become many.

A slot is a number by which somebody keeps something; here it has one hash, until it is let go.  An
entry stays when its slot dies, and goes when arrays are merged: only then the slot is free for
another hash.  Looking up costs a binary search per hash and array, whatever is stored.
"""

from dataclasses import dataclass

import numpy as np

from tidemark.core.state.keyed_lines import Hashes, Mask, Numbers, ranges

_LARGER = 4
"""Each array has more than this many times the entries of the next one ..."""

_FEW = 4_096
"""... and more entries than this, but the last."""


@dataclass(frozen=True, slots=True)
class _Level:
    hashes: Hashes
    slots: Numbers
    unique: bool

    @classmethod
    def of(cls, hashes: Hashes, slots: Numbers) -> "_Level":
        """Hold entries in order of hash."""
        return cls(hashes, slots, bool((hashes[1:] != hashes[:-1]).all()))

    def find(self, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """Return the slots of hashes, and of each the place of its hash."""
        first = np.searchsorted(self.hashes, hashes)
        place = np.flatnonzero(self.hashes.take(first, mode="clip") == hashes)
        first = first[place]
        if self.unique:
            return self.slots[first], place
        count = np.searchsorted(self.hashes, hashes[place], "right") - first
        return self.slots[ranges(first, count)], np.repeat(place, count)


class HashIndex:
    """Slots by hash."""

    def __init__(self) -> None:
        """Start empty."""
        self._levels: list[_Level] = []  # largest first
        self.size = 0

    def find(self, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """Return the slots of hashes, dead or alive, and of each the place of its hash.

        Fastest with hashes in order.
        """
        none = np.empty(0, np.int64)
        found = [level.find(hashes) for level in self._levels]
        slots, places = zip(*found, strict=True) if found else ((), ())
        return np.concatenate([none, *slots]), np.concatenate([none, *places])

    def add(self, hashes: Hashes, slots: Numbers, alive: Mask) -> Numbers:
        """Add slots in order of hash; return those that were let go: dead, by ``alive`` of all."""
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
        """Let all dead slots go; return them."""
        return self._merge(self._levels, alive) if self._levels else np.empty(0, np.int64)

    def _merge(self, levels: list[_Level], alive: Mask) -> Numbers:
        """Put one level in place of the last few."""
        hashes = np.concatenate([level.hashes for level in levels])
        slots = np.concatenate([level.slots for level in levels])
        lives = alive[slots]
        freed: Numbers = slots[~lives]
        hashes, slots = hashes[lives], slots[lives]
        order = np.argsort(hashes, kind="stable")  # fast: it finds and merges what is in order
        del self._levels[-len(levels) :]
        if order.size:
            self._levels.append(_Level.of(hashes[order], slots[order]))
        self.size -= freed.size
        return freed

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        every = [np.empty(0, np.int64), *(level.slots for level in self._levels)]
        slots = np.concatenate(every)
        assert slots.size == self.size, "entries miscounted"
        assert np.unique(slots).size == slots.size, "a slot has two entries"
        for level in self._levels:
            assert bool((level.hashes[1:] >= level.hashes[:-1]).all()), "entries out of order"
