"""The line table: live lines, found by key, taken, put back, and reported once if changed.

A line has a *slot*: the index of its facts in one array, and the name of its key and partials in
blocks (``line_blocks``).  The cost of look-up, take and put depends on the lines touched, not on
the lines stored.  A line that is put after one of the same hash was taken gets its slot.  So a key
that comes again and again changes no index.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import polars as pl

from tidemark.core.state.block_store import BlockStore
from tidemark.core.state.blocks import PIECE_LINES, lines_at
from tidemark.core.state.hash_index import HashIndex
from tidemark.core.state.keyed_lines import (
    Facts,
    Hashes,
    Lines,
    Mask,
    Numbers,
    group_ranges,
    hashes_of,
    same_keys,
)
from tidemark.core.state.line_blocks import LineBlock, LineBlocks

_FEW = 4_096
"""Slots; ``purge`` does nothing for fewer dead lines."""


@dataclass(frozen=True, slots=True)
class LineMatches:
    """The live lines that ``LineTable.find`` found.

    ``slot``: of the lines.  ``key``: the position of each line's key among the keys asked for.
    ``keys``, ``facts``: of the lines; facts are copies.
    """

    slot: Numbers
    key: Numbers
    keys: pl.DataFrame
    facts: Facts

    def where(self, mask: Mask) -> "LineMatches":
        """Return the matches where ``mask`` is true."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        return LineMatches(
            self.slot[at], self.key[at], lines_at(self.keys, at), self.facts.take(at)
        )


class LineTable:
    """Live lines by slot; ``facts``, ``alive`` and ``fresh`` are arrays by slot.

    A line is ``fresh`` until ``take_fresh`` returns it.
    """

    def __init__(self, facts: np.dtype[np.void], store: BlockStore) -> None:
        """Start empty; ``facts``: type of the facts; ``store``: of keys and partials."""
        self.facts = np.empty(0, facts)
        self.alive = np.empty(0, np.bool_)
        self.fresh = np.empty(0, np.bool_)
        self.live = 0
        self._hashes = np.empty(0, np.uint64)
        self._free = np.empty(0, np.int64)  # the next one last
        self._index = HashIndex()
        self.blocks = LineBlocks(store)
        self._taken: list[Numbers] = []
        self._put: list[Numbers] = []

    def find(self, keys: pl.DataFrame, hashes: Hashes) -> LineMatches:
        """Return the live lines of distinct keys; keys in order of hash are fastest."""
        slots, place = self._index.find(hashes)
        lives = self.alive[slots]
        slots, place = slots[lives], place[lives]
        if not slots.size:
            return LineMatches(slots, place, keys.clear(), self.facts[:0])
        order = self.blocks.ordered(slots)
        slots, place = slots[order], place[order]
        found = LineMatches(slots, place, self.blocks.keys(slots), self.facts.take(slots))
        return found.where(same_keys(found.keys, lines_at(keys, place)))

    def live_hashes(self) -> Hashes:
        """Return the hashes of all lines."""
        found: Hashes = self._hashes[self.alive]
        return found

    def partials(self, slots: Numbers) -> pl.DataFrame:
        """Return the partials of live lines, in the order of slots."""
        return self.blocks.partials(slots)

    def keys(self, slots: Numbers) -> pl.DataFrame:
        """Return the keys of live lines, in the order of slots."""
        return self.blocks.keys(slots)

    def lines(self, slots: Numbers) -> Lines:
        """Return live lines, with copies of their facts, in the order of slots."""
        facts = self.facts.take(slots)
        return Lines(self.keys(slots), self._hashes[slots], facts, self.partials(slots))

    def snapshot(self) -> Iterator[pl.DataFrame]:
        """Return all lines as they are now, as pieces that are built lazily.

        Lines of one key that were put together are in one piece.
        """
        held = [self._held(*part) for part in self.blocks.live_lines()]  # facts change in place
        return chain.from_iterable(map(_pieces, held))

    def _held(self, block: LineBlock, at: Numbers) -> tuple[LineBlock, Numbers, Hashes, Facts]:
        slots = block.slots[at]
        return block, at, self._hashes[slots], self.facts.take(slots)

    def size_bytes(self) -> int:
        """Return the approximate size of the live lines in bytes."""
        return self.blocks.size_bytes() + self.live * self.facts.itemsize

    def drop(self, slots: Numbers) -> None:
        """Drop live lines."""
        if slots.size:
            self.blocks.drop(slots)
            self.alive[slots] = False
            self.live -= slots.size

    def take(self, slots: Numbers) -> None:
        """Drop live lines; the lines of the next ``put`` may get their slots."""
        if slots.size:
            self.drop(slots)
            self._taken.append(slots)

    def put(self, lines: Lines, *, fresh: bool) -> Numbers:
        """Add lines, in order of hash, and return their slots."""
        slots = self._reused(lines.hashes)
        new = np.flatnonzero(slots < 0)
        slots[new] = self._unused(new.size)
        self._hashes[slots[new]] = lines.hashes[new]
        self.alive[slots], self.fresh[slots] = True, fresh
        np.put(self.facts, slots, lines.facts)  # many times faster than facts[slots] = ...
        self.live += slots.size
        if new.size:
            self._release(self._index.add(lines.hashes[new], slots[new], self.alive))
        self.blocks.put(slots, lines.keys, lines.partials)
        if fresh:
            self._put.append(slots)
        return slots

    def _reused(self, hashes: Hashes) -> Numbers:
        """Return for each hash a slot taken from a line of the same hash, or -1."""
        taken, self._taken = self._taken, []
        slots = np.full(hashes.size, -1)
        if not taken:
            return slots
        vacant = np.concatenate(taken)
        vacant = vacant[np.argsort(self._hashes[vacant], kind="stable")]
        theirs = self._hashes[vacant]
        # If several lines have one hash, the first gets the first slot, and so on.
        rank = np.arange(hashes.size) - np.searchsorted(hashes, hashes)
        at = np.searchsorted(theirs, hashes) + rank
        fits = np.flatnonzero(theirs.take(at, mode="clip") == hashes)
        fits = fits[at[fits] < theirs.size]
        slots[fits] = vacant[at[fits]]
        return slots

    def _unused(self, count: int) -> Numbers:
        """Return ``count`` free slots; grow the arrays if needed."""
        missing = count - self._free.size
        if missing > 0:
            size = self.alive.size
            more = max(missing, size // 4)
            self._free = np.concatenate([np.arange(size + more, size, -1) - 1, self._free])
            for array in (self.facts, self.alive, self.fresh, self._hashes):
                array.resize(size + more, refcheck=False)  # no other reference exists
        cut = self._free.size - count
        unused = self._free[cut:][::-1].copy()
        self._free = self._free[:cut]
        return unused

    def _release(self, slots: Numbers) -> None:
        self._free = np.concatenate([self._free, slots])

    def take_fresh(self) -> Numbers:
        """Return the slots of live fresh lines; they are not fresh afterwards."""
        put, self._put = self._put, []
        slots = np.concatenate([np.empty(0, np.int64), *put])
        slots = slots[self.alive[slots] & self.fresh[slots]]
        if len(put) > 1:
            slots = np.unique(slots)
            slots = slots[self.blocks.ordered(slots)]
        self.fresh[slots] = False
        return slots

    def purge(self) -> None:
        """Free the slots of dead lines, if they are more than the live lines."""
        dead = self._index.size - self.live
        if dead > max(self.live, _FEW):
            self._taken = []
            self._release(self._index.drop_dead(self.alive))

    def validate(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        self.blocks.validate()
        self._index.validate()
        assert self.live == np.count_nonzero(self.alive), "live lines miscounted"
        assert np.unique(self._free).size == self._free.size, "a slot is free twice"
        assert not self.alive[self._free].any(), "a line has a free slot"
        assert self._index.size + self._free.size == self.alive.size, "a slot is lost"
        slots = np.flatnonzero(self.alive)
        if slots.size:
            assert (hashes_of(self.keys(slots)) == self._hashes[slots]).all(), "another key's hash"
            found, _ = self._index.find(np.unique(self._hashes[slots]))
            assert np.isin(slots, found).all(), "a line is not found"


def _pieces(held: tuple[LineBlock, Numbers, Hashes, Facts]) -> Iterator[pl.DataFrame]:
    block, at, hashes, facts = held
    begins = np.append(True, hashes[1:] != hashes[:-1])
    for low, high in group_ranges(begins, PIECE_LINES):
        part = slice(low, high)
        keys, partials = block.keys_at(at[part]), block.partials_at(at[part])
        yield Lines(keys, hashes[part], facts[part], partials).frame()
