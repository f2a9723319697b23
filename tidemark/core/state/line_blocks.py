"""Keys and partial aggregates of lines in immutable blocks, found by slot.

A slot is the number of a line as long as it lives.  Lines are added as blocks.  They die one by
one, and move when blocks are merged; callers know slots only and do not notice.  A merge copies
live lines only and never makes a block larger than a bound, so no merge takes long.  Merges are
rare: a block is copied if it is small, if more than half of it is dead, or if many blocks are of
similar size.

The store sets the maximum size of a frame: a look-up in a larger frame would load too much.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.state.block_store import Block, BlockStore
from tidemark.core.state.blocks import in_one_chunk, lines_at, size_tier, stacked
from tidemark.core.state.keyed_lines import Mask, Numbers, group_ranges, same_keys
from tidemark.core.time.segment import FOREVER_MS

_MANY = 8
"""Number of blocks of similar size that are merged."""

_FEW = 4_096
"""Lines; blocks with fewer live lines are merged at once."""

_LARGE = 1 << 18
"""Maximum lines of a merged block."""

_GONE = -1


@dataclass(slots=True, eq=False)
class LineBlock:
    """A block of lines at places ``first``, ``first + 1`` ...; ``live`` of them are alive.

    ``slots``: of the lines, also of dead ones.  ``is_full``: over half the store's maximum size, so
    the block is not merged as long as most of its lines live.
    """

    keys: Block
    partials: Block
    slots: Numbers
    first: int
    live: int
    is_full: bool

    @property
    def size(self) -> int:
        """The number of lines, alive or dead."""
        return self.slots.size

    def keys_at(self, at: Numbers) -> pl.DataFrame:
        """Return the keys of lines by their positions in the block."""
        return lines_at(self.keys.frame(), at)

    def partials_at(self, at: Numbers) -> pl.DataFrame:
        """Return the partials of lines by their positions in the block."""
        return lines_at(self.partials.frame(), at)

    def size_bytes(self) -> int:
        """Return the approximate size of the live lines in bytes."""
        held_bytes = self.keys.size_bytes + self.partials.size_bytes
        return held_bytes * self.live // self.size


class LineBlocks:
    """Keys and partials of lines, by slot."""

    def __init__(self, store: BlockStore) -> None:
        """Start empty; ``store``: of the frames."""
        self._store = store
        self._blocks: list[LineBlock] = []  # by first place
        self._place = np.empty(0, np.int64)  # by slot; no place is used twice
        self._next = 0

    def put(self, slots: Numbers, keys: pl.DataFrame, partials: pl.DataFrame) -> None:
        """Add lines under slots that have no line."""
        if not slots.size:
            return
        if int(slots.max()) >= self._place.size:
            more = np.full(max(int(slots.max()) + 1, self._place.size // 2), _GONE, np.int64)
            self._place = np.concatenate([self._place, more])
        self._append(slots, keys, partials)
        self._merge()

    def _append(self, slots: Numbers, keys: pl.DataFrame, partials: pl.DataFrame) -> None:
        """Add lines as one block, or as several if the store limits the size.

        Contiguous lines of one key stay in one block, because snapshots need that.
        """
        bounds = [(0, slots.size)]
        if self._store.frame_bytes is not None:
            size_bytes = int(keys.estimated_size() + partials.estimated_size())
            lines = -(-slots.size // (size_bytes // self._store.frame_bytes + 1))
            bounds = group_ranges(np.append(True, ~same_keys(keys[1:], keys[:-1])), lines)
        for low, high in bounds:
            part = slice(low, high)
            self._append_block(slots[part], keys[part], partials[part])

    def _append_block(self, slots: Numbers, keys: pl.DataFrame, partials: pl.DataFrame) -> None:
        put, most_bytes = self._store.put, self._store.frame_bytes
        block = LineBlock(
            put(FOREVER_MS, keys),
            put(FOREVER_MS, partials),
            slots,
            self._next,
            slots.size,
            is_full=False,
        )
        block.is_full = most_bytes is not None and block.size_bytes() * 2 > most_bytes
        self._blocks.append(block)
        self._place[slots] = np.arange(block.first, block.first + block.size)
        self._next += block.size

    def _located(self, slots: Numbers) -> Numbers:
        """Return for each slot the position of its block in ``_blocks``."""
        firsts = [block.first for block in self._blocks]
        number: Numbers = np.searchsorted(firsts, self._place[slots], "right") - 1
        return number

    def ordered(self, slots: Numbers) -> Numbers:
        """Return the order, as positions, in which slots are read fastest."""
        return np.argsort(self._place[slots])

    def keys(self, slots: Numbers) -> pl.DataFrame:
        """Return the keys of lines, in the order of slots."""
        return self._read(slots, LineBlock.keys_at)

    def partials(self, slots: Numbers) -> pl.DataFrame:
        """Return the partials of lines, in the order of slots."""
        return self._read(slots, LineBlock.partials_at)

    def _read(
        self, slots: Numbers, part_of: Callable[[LineBlock, Numbers], pl.DataFrame]
    ) -> pl.DataFrame:
        number = self._located(slots)
        in_order = bool((number[1:] >= number[:-1]).all())
        order = np.arange(slots.size) if in_order else self.ordered(slots)
        number, place = number[order], self._place[slots[order]]
        used = np.unique(number)
        bounds = [*np.searchsorted(number, used).tolist(), number.size]
        parts = [
            part_of(block, place[low:high] - block.first)
            for block, low, high in zip(
                (self._blocks[index] for index in used.tolist()),
                bounds[:-1],
                bounds[1:],
                strict=True,
            )
        ]
        read = in_one_chunk(stacked(parts)) if len(parts) > 1 else parts[0]
        return read if in_order else lines_at(read, np.argsort(order))

    def drop(self, slots: Numbers) -> None:
        """Drop lines."""
        gone = np.bincount(self._located(slots), minlength=len(self._blocks)).tolist()
        for block, count in zip(self._blocks, gone, strict=True):
            block.live -= count
        self._place[slots] = _GONE
        if any(gone):
            self._blocks = [block for block in self._blocks if block.live]

    def _lives(self, block: LineBlock) -> Mask:
        place = self._place[block.slots]
        lives: Mask = place == np.arange(block.first, block.first + block.size)
        return lives

    def _merge(self) -> None:
        """Merge blocks that are small, half dead, or many of similar size."""
        merged = [block for block in self._blocks if block.live < _FEW and not block.is_full]
        if len(merged) > 1:
            self._copy(merged)
        half_dead = [block for block in self._blocks if block.live * 2 < block.size]
        if half_dead:
            self._copy(half_dead)
        by_size = sorted(self._blocks, key=lambda block: block.live, reverse=True)
        by_size = [block for block in by_size if block.live < _LARGE // 2 and not block.is_full]
        begin = size_tier([block.live for block in by_size], _MANY, _FEW)
        if begin is not None:
            self._copy(by_size[begin : begin + _MANY])

    def _copy(self, blocks: list[LineBlock]) -> None:
        """Replace blocks by one of their live lines; only the smallest if all are too large."""
        blocks = sorted(blocks, key=lambda block: block.live)
        lines = np.add.accumulate([block.live for block in blocks])
        blocks = blocks[: max(1, int(np.searchsorted(lines, _LARGE, "right")))]
        at = [np.flatnonzero(self._lives(block)) for block in blocks]
        slots = np.concatenate([b.slots[live] for b, live in zip(blocks, at, strict=True)])
        keys = [block.keys_at(live) for block, live in zip(blocks, at, strict=True)]
        partials = [block.partials_at(live) for block, live in zip(blocks, at, strict=True)]
        self._blocks = [block for block in self._blocks if block not in blocks]
        self._append(slots, in_one_chunk(stacked(keys)), in_one_chunk(stacked(partials)))

    def live_lines(self) -> list[tuple[LineBlock, Numbers]]:
        """Return the blocks, and in each the positions of live lines; neither changes later."""
        return [(block, np.flatnonzero(self._lives(block))) for block in self._blocks]

    def size_bytes(self) -> int:
        """Return the approximate size of the live lines in bytes."""
        return sum(block.size_bytes() for block in self._blocks)

    def validate(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        for block in self._blocks:
            assert block.live == np.count_nonzero(self._lives(block)), "live lines miscounted"
            assert block.keys.height == block.partials.height == block.size, "uneven block"
        live = sum(block.live for block in self._blocks)
        assert live == np.count_nonzero(self._place != _GONE), "a slot has no line"
