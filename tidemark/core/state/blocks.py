"""Helpers for blocks: frames of partial aggregates that state appends and merges.

When blocks are merged follows size-tiered compaction, as in log-structured merge trees.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.state.block_store import Block

Numbers = npt.NDArray[np.int64]

AnyBlock = TypeVar("AnyBlock", bound=Block)

PIECE_BYTES = 4 * 2**20
"""Approximate size of a piece of a snapshot ..."""

PIECE_LINES = 32_768
"""... or its number of lines, if they are in one block."""


def in_pieces(blocks: Iterable[pl.DataFrame]) -> Iterator[list[pl.DataFrame]]:
    """Yield blocks in groups of about PIECE_BYTES; empty blocks are left out."""
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
    """Return the lines at positions ``at``, in that order; contiguous lines are not copied.

    It works column by column.  For a whole frame polars uses its thread pool, and for few lines
    the wait for a thread takes longer than the work.
    """
    if not at.size:
        return frame.clear()
    if bool((at[1:] == at[:-1] + 1).all()):
        return frame.slice(int(at[0]), at.size)
    index = pl.Series(at.astype(np.uint32))
    return pl.DataFrame([column[index] for column in frame])


def lines_or_null(frame: pl.DataFrame, at: Numbers) -> pl.DataFrame:
    """Return the lines at positions ``at``, in that order; for the position -1 all is null."""
    missing = np.flatnonzero(at < 0)
    if not missing.size:
        return lines_at(frame, at)
    index = pl.Series(at).scatter(missing, None)
    return pl.DataFrame([column.gather(index) for column in frame])


def conformed(rows: pl.DataFrame, columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return rows with these columns only; one that is missing is null."""
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in columns.items()
    )


def order_by(columns: Iterable[pl.Series]) -> Numbers:
    """Return the order of lines by the first column, then by the next ones; null comes first."""
    by = pl.DataFrame([column.alias(str(number)) for number, column in enumerate(columns)])
    return by.select(pl.arg_sort_by(*by.columns)).to_series().to_numpy().astype(np.int64)


def in_one_chunk(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with one chunk per column; column by column, as ``lines_at``."""
    return pl.DataFrame([column.rechunk() for column in frame])


def total_bytes(blocks: Iterable[Block]) -> int:
    """Return the approximate size of blocks in bytes."""
    return sum(block.size_bytes for block in blocks)


def stacked(blocks: list[pl.DataFrame]) -> pl.DataFrame:
    """Return blocks concatenated; a part that a block leaves out is null, which means zero."""
    return pl.concat(blocks, how="diagonal")


def frames_of(blocks: Iterable[Block]) -> Iterator[pl.DataFrame]:
    """Yield the frames of blocks; each is loaded when it is its turn."""
    return (block.frame() for block in blocks)


def merge_newest(
    blocks: list[AnyBlock], many: int, merged: Callable[[list[pl.DataFrame]], AnyBlock]
) -> None:
    """Merge the newest blocks once there are ``many``, with older ones not larger than their sum.

    ``merged`` makes one block of frames.  A line is merged again only with as many other lines, so
    the number of merges per line is logarithmic.
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
    """Return where the smallest tier begins: ``many`` neighbours of similar size; None without one.

    ``sizes`` descend.  Sizes are similar if none is over ``many`` times another; all sizes below
    ``few`` are similar.  Without a tier, the number of sizes is logarithmic in their sum.
    """
    for begin in range(len(sizes) - many, -1, -1):
        if sizes[begin] <= many * max(sizes[begin + many - 1], few // many):
            return begin
    return None
