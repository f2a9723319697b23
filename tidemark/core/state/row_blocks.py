"""Blocks of rows in order of arrival, in a store, read by place.

A row's *place* is its position over all blocks.  Small neighbours are merged, as in log-structured
merge trees.  A block is dropped once no row of it is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from tidemark.core.state.block_store import Block, BlockStore
from tidemark.core.state.blocks import in_one_chunk, lines_at, total_bytes
from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.state.own_buffers import copied

_MANY = 8
"""Number of blocks of similar size that are merged."""

_FEW = 2_048
"""Rows; all smaller blocks count as of similar size."""

_LARGE = 1 << 16
"""Maximum rows of a block."""


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """The rows at places ``first`` and so on.

    ``all_until_ms``, ``some_until_ms``: the last clocks at which all and some rows are needed.
    """

    block: Block
    first: int
    all_until_ms: int
    some_until_ms: int

    @property
    def stop(self) -> int:
        """The place behind the last row."""
        return self.first + self.block.height

    @property
    def places(self) -> slice:
        """The places of the rows."""
        return slice(self.first, self.stop)


class RowBlocks:
    """Rows in order of arrival, read by place."""

    def __init__(self, schema: pl.Schema, store: BlockStore) -> None:
        """Start empty."""
        self._schema = schema
        self._store = store
        self._blocks: list[RowBlock] = []

    @property
    def blocks(self) -> Sequence[RowBlock]:
        """All blocks as they are now; blocks never change."""
        return tuple(self._blocks)

    def append(self, rows: pl.DataFrame, first: int, until_ms: Numbers) -> None:
        """Add rows behind all others; ``until_ms``: the last clock at which each is needed."""
        most = self._most_rows(rows)
        for begin in range(0, rows.height, most):
            part = slice(begin, begin + most)
            self._put(rows[part], first + begin, until_ms[part])
        self._merge()

    def _put(self, rows: pl.DataFrame, first: int, until_ms: Numbers) -> None:
        least_ms, most_ms = int(until_ms.min()), int(until_ms.max())
        block = self._store.put(most_ms, in_one_chunk(rows))
        self._blocks.append(RowBlock(block, first, least_ms, most_ms))

    def _most_rows(self, rows: pl.DataFrame) -> int:
        most_bytes = self._store.frame_bytes
        if most_bytes is None:
            return _LARGE
        return max(1, min(_LARGE, most_bytes * rows.height // (int(rows.estimated_size()) + 1)))

    def _merge(self) -> None:
        """Merge the newest blocks while many are of similar size; places do not change."""
        while merged := self._similar():
            frame = in_one_chunk(pl.concat([each.block.frame() for each in merged]))
            least_ms = min(each.all_until_ms for each in merged)
            most_ms = max(each.some_until_ms for each in merged)
            block = self._store.put(most_ms, frame)
            whole = RowBlock(block, merged[0].first, least_ms, most_ms)
            self._blocks[-len(merged) :] = [whole]

    def _similar(self) -> Sequence[RowBlock]:
        """Return the newest blocks if they can be merged."""
        newest = self._blocks[-_MANY:]
        if len(newest) < _MANY:
            return ()
        heights = [each.block.height for each in newest]
        size = total_bytes(each.block for each in newest)
        similar = max(heights) < max(_FEW, _MANY * heights[-1])
        together = all(one.stop == other.first for one, other in pairwise(newest))
        fits = sum(heights) <= _LARGE and size <= (self._store.frame_bytes or size)
        return newest if similar and together and fits else ()

    def holds(self, places: Numbers) -> Mask:
        """Mark the places whose rows are not dropped."""
        if not self._blocks:
            return np.zeros(places.size, np.bool_)
        firsts = np.array([each.first for each in self._blocks])
        stops = np.array([each.stop for each in self._blocks])
        number = np.searchsorted(firsts, places, "right") - 1
        held: Mask = (number >= 0) & (places < stops[number])
        return held

    def rows(self, places: Numbers) -> pl.DataFrame:
        """Return rows, in the order of places."""
        if not places.size:
            return pl.DataFrame(schema=self._schema)
        firsts = np.array([each.first for each in self._blocks])
        number = np.searchsorted(firsts, places, "right") - 1
        used = np.flatnonzero(np.bincount(number, minlength=firsts.size))
        if used.size == 1:
            only = self._blocks[used[0]]
            return lines_at(only.block.frame(), places - only.first)
        blocks = [self._blocks[index] for index in used]
        if self._store.frame_bytes is not None:
            return _one_by_one(blocks, places, np.searchsorted(used, number))
        begins = np.add.accumulate([0, *(each.block.height for each in blocks)])
        shift = np.zeros(firsts.size, np.int64)
        shift[used] = begins[:-1] - firsts[used]
        columns = zip(*(each.block.frame().get_columns() for each in blocks), strict=True)
        at = places + shift[number]
        return pl.DataFrame([_gathered(column, at, begins) for column in columns])

    def purge(self, clock_ms: int) -> None:
        """Drop the blocks whose rows are not needed at this clock."""
        self._blocks = [each for each in self._blocks if each.some_until_ms >= clock_ms]

    def compact(self, alive: Mask, until_ms: Numbers) -> None:
        """Keep the rows at places that a mask marks, and give them places without gaps.

        ``until_ms``: of the rows that are kept.
        """
        blocks, self._blocks, first = self._blocks, [], 0
        for each in blocks:
            at = np.flatnonzero(alive[each.places])
            if at.size:
                rows = lines_at(each.block.frame(), at)
                self._put(rows, first, until_ms[first : first + at.size])
                first += at.size

    def size_bytes(self) -> int:
        """Return the approximate size of the rows, bytes."""
        return total_bytes(each.block for each in self._blocks)

    def validate(self, stop: int) -> None:
        """Raise AssertionError where an invariant is broken; ``stop``: behind the last place."""
        before = 0
        for each in self._blocks:
            assert each.block.height > 0, "an empty block"
            assert each.first >= before, "blocks overlap"
            before = each.stop
        assert before <= stop, "a row without facts"


def _one_by_one(blocks: Sequence[RowBlock], places: Numbers, number: Numbers) -> pl.DataFrame:
    """Return rows in the order of places; no two blocks need to be in memory at once.

    ``number``: the number of the block of each place.
    """
    order = np.argsort(number, kind="stable")
    stops = np.searchsorted(number[order], np.arange(len(blocks)), "right").tolist()
    parts = []
    for each, (begin, stop) in zip(blocks, pairwise([0, *stops]), strict=True):
        at = pl.Series((places[order[begin:stop]] - each.first).astype(np.uint32))
        parts.append(pl.DataFrame([copied(column[at]) for column in each.block.frame()]))
    back = np.empty(order.size, np.int64)
    back[order] = np.arange(order.size)
    return lines_at(in_one_chunk(pl.concat(parts)), back)


def _gathered(parts: Sequence[pl.Series], at: Numbers, begins: Numbers) -> pl.Series:
    """Return the values at positions ``at`` over all parts, which begin at ``begins``.

    Polars copies all values of nested columns in parts before it gathers some, so of these only
    the used ones are put together.
    """
    if not parts[0].dtype.is_nested():
        return pl.concat(parts, rechunk=False)[pl.Series(at.astype(np.uint32))]
    used, back = np.unique(at, return_inverse=True)
    bounds = np.searchsorted(used, begins)
    some = [
        part[pl.Series((used[low:high] - begin).astype(np.uint32))]
        for part, begin, (low, high) in zip(parts, begins, pairwise(bounds), strict=False)
    ]
    return pl.concat(some, rechunk=True)[pl.Series(back.astype(np.uint32))]
