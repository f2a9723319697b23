"""The rows that partial matches may have, by place: their number in order of event time."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Changes, Numbers
from tidemark.core.state.block_store import BlockStore
from tidemark.core.state.blocks import conformed, lines_at, lines_or_null
from tidemark.core.state.row_blocks import RowBlock, RowBlocks
from tidemark.core.time.segment import EVENT_TIME

ROWS = "rows"
"""Frame of changes: rows with their places; changelogs store the name."""

PLACE = "@place"

_PIECE_ROWS = 32_768
"""Maximum rows of a piece of a snapshot."""


class StepRows:
    """The rows of one log partition that partial matches may have.

    ``columns``: of a row.  ``within_ms``: how long after its event time a row is needed.
    """

    def __init__(
        self, columns: Mapping[str, pl.DataType], within_ms: int, store: BlockStore
    ) -> None:
        """Start empty."""
        self._columns = columns
        self._within_ms = within_ms
        self._store = store
        self._rows = RowBlocks(pl.Schema(columns), store)
        self._next = 0
        self._fresh = 0  # rows from this place on are not in any changes yet

    def add(self, rows: pl.DataFrame) -> Numbers:
        """Add rows, which are behind all others in order; return their places."""
        first = self._next
        self._append(rows[list(self._columns)], first)
        return np.arange(first, self._next)

    def _append(self, rows: pl.DataFrame, first: int) -> None:
        if rows.height:
            self._rows.append(rows, first, rows[EVENT_TIME].to_numpy() + self._within_ms)
            self._next = first + rows.height

    def rows(self, places: Numbers) -> pl.DataFrame:
        """Return rows, in the order of places."""
        return self._rows.rows(places)

    def rows_or_null(self, places: Numbers) -> pl.DataFrame:
        """Return rows, in the order of places; nulls for the place -1."""
        known = np.flatnonzero(places >= 0)
        at = np.full(places.size, -1)
        at[known] = np.arange(known.size)
        return lines_or_null(self._rows.rows(places[known]), at)

    def changes(self) -> Changes:
        """Return, once, the rows since the last call."""
        fresh = [self._frame(each, self._fresh) for each in self._rows.blocks]
        self._fresh = self._next
        some = [frame for frame in fresh if frame.height]
        return {ROWS: pl.concat(some)} if some else {}

    @staticmethod
    def _frame(block: RowBlock, first: int) -> pl.DataFrame:
        """Return the rows of a block from a place on, with their places."""
        begin = max(block.first, first)
        if begin >= block.stop:
            return pl.DataFrame()
        rows = block.block.frame()[begin - block.first :]
        return rows.hstack([pl.Series(PLACE, np.arange(begin, block.stop))])

    def snapshot(self) -> Iterator[Changes]:
        """Return all rows, in pieces that are built lazily."""
        return self._pieces(self._rows.blocks)

    def _pieces(self, blocks: Sequence[RowBlock]) -> Iterator[Changes]:
        for block in blocks:
            frame = self._frame(block, 0)
            for begin in range(0, frame.height, _PIECE_ROWS):
                yield {ROWS: frame[begin : begin + _PIECE_ROWS]}

    def size_bytes(self) -> int:
        """Return the approximate size of the rows, bytes."""
        return self._rows.size_bytes()

    def apply(self, changes: Changes) -> None:
        """Apply one piece: rows at their places."""
        if ROWS in changes:
            self._restore(changes[ROWS])
        self._fresh = self._next

    def _restore(self, frame: pl.DataFrame) -> None:
        """Put rows at their places; pieces of a snapshot come in any order."""
        frame = conformed(frame, {**self._columns, PLACE: pl.Int64()})
        if self._next > int(frame[PLACE].to_numpy().min(initial=self._next)):
            before = [self._frame(each, 0) for each in self._rows.blocks]
            frame = pl.concat([*(rows.select(frame.columns) for rows in before), frame])
            self._rows = RowBlocks(pl.Schema(self._columns), self._store)
        frame = frame.sort(PLACE)
        places = frame[PLACE].to_numpy()
        cuts = np.flatnonzero(np.diff(places) != 1) + 1
        bounds = np.concatenate([[0], cuts, [places.size]])
        for begin, stop in pairwise(bounds.tolist()):
            if begin < stop:
                at = np.arange(begin, stop)
                self._append(lines_at(frame.drop(PLACE), at), int(places[begin]))

    def purge(self, clock_ms: int) -> None:
        """Drop rows that no partial match can have any more, a block at a time."""
        self._rows.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self._rows.validate(self._next)
