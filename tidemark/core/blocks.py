"""Blocks: frames of partial aggregates that state appends to, and merges as they become many."""

from collections.abc import Callable

import polars as pl


def stacked(blocks: list[pl.DataFrame]) -> pl.DataFrame:
    """Put blocks under each other; a part that a block left out is null there, which means zero."""
    return pl.concat(blocks, how="diagonal")


def merge_newest(
    blocks: list[pl.DataFrame], many: int, merged: Callable[[list[pl.DataFrame]], pl.DataFrame]
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
    blocks[first:] = [merged(blocks[first:])]
