"""Partial aggregates of runs of lines: every prefix, and every stretch of one length.

Merging is associative but has no inverse, so neither subtracts: prefixes come from the prefixes of
pairs, except where every aggregate has a running form; stretches from stretches of half the length.
Both take about as many merges as there are lines (times the bits of the length), in a few
group-bys; nothing loops over lines.

Lines are frames of partials in an order that merging keeps; groups of them are numbered from 0 in
that order.
"""

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.state.blocks import stacked
from tidemark.core.state.keyed_lines import Mask, Numbers

_GROUP = "@group"


def grouped(aggregation: Aggregation, lines: pl.DataFrame, group: Numbers) -> pl.DataFrame:
    """Merge the lines of each group; one line per group, in order."""
    if not group.size or group[-1] == group.size - 1:
        return lines
    return _merged(aggregation, [lines], [group])


def numbered(begins: Mask) -> Numbers:
    """Number groups by their first lines."""
    numbers: Numbers = np.add.accumulate(begins.astype(np.int64)) - 1
    return numbers


def prefixes(aggregation: Aggregation, lines: pl.DataFrame, group: Numbers) -> pl.DataFrame:
    """Return for each line the merged lines of its group up to and including it."""
    place = np.arange(group.size)
    rank = place - np.searchsorted(group, group)
    if not rank.any():
        return lines
    made = aggregation.running(lines, group)
    if made is not None:
        return made
    pair = numbered(rank % 2 == 0)
    of_pairs = group[np.searchsorted(pair, np.arange(pair[-1] + 1))]
    pairs = prefixes(aggregation, grouped(aggregation, lines, pair), of_pairs)
    first, odd = rank == 0, rank % 2 == 1
    rest = np.flatnonzero(~first & ~odd)
    later = _merged(aggregation, [pairs[pair[rest] - 1], lines[rest]], [rest, rest])
    made = stacked([lines[np.flatnonzero(first)], pairs[pair[odd]], later])
    order = np.concatenate([np.flatnonzero(first), np.flatnonzero(odd), rest])
    return made[np.argsort(order)]


def stretches(
    aggregation: Aggregation, lines: pl.DataFrame, begin: Numbers, length: int
) -> pl.DataFrame:
    """Return for each of ``begin`` the merged ``length`` lines from there on.

    All of them must be there; what is made on the way of lines that do not belong together is
    never looked at.
    """
    every = np.arange(begin.size)
    parts, groups = [lines.clear()], [every[:0]]
    begin, width = begin.copy(), 1
    while True:
        if length & width:
            parts.append(lines[begin])
            groups.append(every)
            begin += width
        if length < width * 2:
            return parts[-1] if len(parts) == 2 else _merged(aggregation, parts, groups)
        place = np.arange(max(lines.height - width, 0))
        lines = _merged(aggregation, [lines[place], lines[place + width]], [place, place])
        width *= 2


def _merged(
    aggregation: Aggregation, parts: list[pl.DataFrame], groups: list[Numbers]
) -> pl.DataFrame:
    numbers = pl.Series(_GROUP, np.concatenate(groups))
    frame = aggregation.combine([stacked(parts).hstack([numbers])], (_GROUP,))
    return frame.sort(_GROUP).drop(_GROUP)
