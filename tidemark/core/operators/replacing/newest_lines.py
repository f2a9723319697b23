"""Lines of state of which the newest of each identity counts, until time has passed it.

Lines are only added.  So the lines are the changelog, and merging blocks removes older lines.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from tidemark.core.operators.operator import Changes, Mask
from tidemark.core.state.block_store import IN_MEMORY, Block, BlockStore
from tidemark.core.state.blocks import frames_of, in_pieces, merge_newest, total_bytes
from tidemark.core.time.segment import NEVER_MS

UNTIL = "@until"
"""Int64 column of lines, ms: a line is dropped once the clock has passed it by the lateness."""

_MANY = 16
"""Blocks that are merged into fewer, so that their number stays bounded."""


@dataclass(frozen=True, slots=True)
class _Dated:
    """A block with the highest UNTIL of its lines."""

    block: Block
    until_ms: int

    @property
    def height(self) -> int:
        return self.block.height

    @property
    def size_bytes(self) -> int:
        return self.block.size_bytes

    def frame(self) -> pl.DataFrame:
        return self.block.frame()


class NewestLines:
    """Lines with the columns ``identity``, UNTIL and others; all lines have the same columns."""

    def __init__(
        self,
        name: str,
        identity: Sequence[str],
        allowed_lateness_ms: int,
        store: BlockStore = IN_MEMORY,
    ) -> None:
        """Start empty; ``name``: of the frame of changes; ``store``: where lines lie."""
        self._name = name
        self._identity = list(identity)
        self._lateness_ms = allowed_lateness_ms
        self._store = store
        self._blocks: list[_Dated] = []
        self._added: list[pl.DataFrame] = []
        self._passed_ms = NEVER_MS

    def add(self, lines: pl.DataFrame) -> None:
        """Add lines; each replaces the line of the same identity."""
        if lines.height:
            self._added.append(lines)
            self._keep(lines)

    def of(self, wanted: pl.DataFrame) -> pl.DataFrame | None:
        """Return the newest lines that match a line of ``wanted`` in its columns of the identity.

        Returns None if there is no line at all.
        """
        on = wanted.columns
        blocks = frames_of(self._blocks)
        found = [block.join(wanted, on=on, how="semi", nulls_equal=True) for block in blocks]
        return self._newest(found) if found else None

    def where(self, mark: Callable[[pl.DataFrame], Mask]) -> pl.DataFrame | None:
        """Return the lines that ``mark`` marks, older ones too; None without such lines."""
        frames = list(frames_of(self._blocks))
        found = [frame.filter(pl.Series(mark(frame))) for frame in frames]
        some = [frame for frame in found if frame.height]
        return pl.concat(some) if some else None

    def all(self) -> pl.DataFrame | None:
        """Return the newest line of each identity; None if there is no line at all."""
        return self._newest(list(frames_of(self._blocks))) if self._blocks else None

    def _newest(self, blocks: list[pl.DataFrame]) -> pl.DataFrame:
        return self._lines(blocks, self._passed_ms)

    def _lines(self, blocks: list[pl.DataFrame], passed_ms: int) -> pl.DataFrame:
        """Return the newest lines of blocks that time has not passed."""
        lines = pl.concat(blocks).unique(self._identity, keep="last", maintain_order=True)
        return lines.filter(pl.col(UNTIL) > passed_ms)

    def _keep(self, lines: pl.DataFrame) -> None:
        self._blocks.append(self._stored(lines))
        merge_newest(self._blocks, _MANY, lambda newest: self._stored(self._newest(newest)))
        self._drop_passed()

    def _stored(self, lines: pl.DataFrame) -> _Dated:
        until_ms = int(lines[UNTIL].to_numpy().max(initial=NEVER_MS))
        return _Dated(self._store.put(until_ms, lines), until_ms)

    def _drop_passed(self) -> None:
        self._blocks = [block for block in self._blocks if block.until_ms > self._passed_ms]

    def changes(self) -> Changes:
        """Return, once, the lines added since the last call, without those purged since."""
        added, self._added = self._added, []
        lines = self._newest(added) if added else None
        return {} if lines is None or lines.is_empty() else {self._name: lines}

    def snapshot(self) -> Iterator[Changes]:
        """Return the newest lines, in pieces."""
        held, passed_ms = list(self._blocks), self._passed_ms
        pieces = in_pieces(self._lines(list(frames_of(held)), passed_ms) for _ in held[:1])
        return ({self._name: pl.concat(piece)} for piece in pieces)

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return total_bytes(self._blocks)

    def apply(self, changes: Changes) -> None:
        """Add lines of a changelog."""
        if self._name in changes:
            self._keep(changes[self._name])

    def purge(self, clock_ms: int) -> None:
        """Drop the lines that time has passed: whole blocks now, other lines in merges."""
        self._passed_ms = max(self._passed_ms, clock_ms - self._lateness_ms)
        self._drop_passed()

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        for block in self._blocks:
            assert block.height, f"{self._name}: a block is empty"
            assert (block.frame()[UNTIL] <= block.until_ms).all(), f"{self._name}: a wrong time"
