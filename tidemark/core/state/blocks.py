"""Blocks: frames of partial aggregates that state appends to, and merges as they become many."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.state.block_store import Block

Numbers = npt.NDArray[np.int64]

PIECE_BYTES = 4 * 2**20
"""About how much of a snapshot is made at once ..."""

PIECE_LINES = 32_768
"""... or how many lines of it, where they lie in one block."""


def in_pieces(blocks: Iterable[pl.DataFrame]) -> Iterator[list[pl.DataFrame]]:
    """Gather blocks until they have the bytes of a piece; an empty one is left out."""
    piece: list[pl.DataFrame] = []
    size = 0
    for block in blocks:
        if block.height:
            piece.append(block)
            size += int(block.estimated_size())
        if size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def lines_at(frame: pl.DataFrame, at: Numbers) -> pl.DataFrame:
    """Return some lines in the order of ``at``; those that lie behind each other are not copied.

    Column by column: of a whole frame another thread of polars takes them, and where lines are
    few, waiting for it to have its turn takes longer than all else.
    """
    if at.size and bool((at[1:] == at[:-1] + 1).all()):
        return frame.slice(int(at[0]), at.size)
    index = pl.Series(at.astype(np.uint32))
    return pl.DataFrame([column[index] for column in frame])


def in_one_chunk(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose columns are each in one chunk; made as in ``lines_at``."""
    return pl.DataFrame([column.rechunk() for column in frame])


def total_bytes(blocks: Iterable[Block]) -> int:
    """Return about how many bytes blocks have."""
    return sum(block.size_bytes for block in blocks)


def stacked(blocks: list[pl.DataFrame]) -> pl.DataFrame:
    """Put blocks under each other; a part that a block left out is null there, which means zero."""
    return pl.concat(blocks, how="diagonal")


def frames_of(blocks: Iterable[Block]) -> Iterator[pl.DataFrame]:
    """Yield the frames of blocks; each is brought back when its turn comes."""
    return (block.frame() for block in blocks)


def merge_newest(
    blocks: list[Block], many: int, merged: Callable[[list[pl.DataFrame]], Block]
) -> None:
    """Merge the newest blocks once there are ``many``, with older ones that are not much larger.

    A line is merged again only with as many others, so its share of the work is logarithmic.
    """
    if len(blocks) < many:
        return
    first = len(blocks) - many // 2
    lines = sum(block.height for block in blocks[first:])
    while first and blocks[first - 1].height <= lines:
        first -= 1
        lines += blocks[first].height
    blocks[first:] = [merged(list(frames_of(blocks[first:])))]


def size_tier(sizes: list[int], many: int, few: int) -> int | None:
    """Find ``many`` neighbours of similar size, none of them over ``many`` times another.

    ``sizes`` go down; below ``few`` all are alike.  Returns where the smallest such begin, or None
    where there are none: then the number of sizes is logarithmic in their sum.
    """
    for begin in range(len(sizes) - many, -1, -1):
        if sizes[begin] <= many * max(sizes[begin + many - 1], few // many):
            return begin
    return None
