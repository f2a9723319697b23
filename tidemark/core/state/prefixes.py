"""Merged partials of lines: every prefix of a group, and ranges of one length.

A merge is associative but has no inverse, so nothing is subtracted.  Prefixes come from the
prefixes of pairs (a parallel prefix sum), unless every aggregate has a running form.  Ranges of a
length come from ranges of half the length.  Both take about as many merges as there are lines
(times log2 of the length), in a few group-bys.  Nothing loops over lines.

``lines`` is a frame of partials.  Groups of lines are contiguous and numbered from 0.
"""

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.state.blocks import stacked
from tidemark.core.state.keyed_lines import Mask, Numbers

_GROUP = "@group"


def merge_groups(aggregation: Aggregation, lines: pl.DataFrame, group: Numbers) -> pl.DataFrame:
    """Return the merged lines of each group: one line per group, in order."""
    if not group.size or group[-1] == group.size - 1:
        return lines
    return _merged(aggregation, [lines], [group])


def group_numbers(begins: Mask) -> Numbers:
    """Return the group number of each line; ``begins``: whether it is the first of its group."""
    numbers: Numbers = np.add.accumulate(begins.astype(np.int64)) - 1
    return numbers


def prefixes(aggregation: Aggregation, lines: pl.DataFrame, group: Numbers) -> pl.DataFrame:
    """Return for each line the merge of its group's lines up to and including it."""
    place = np.arange(group.size)
    rank = place - np.searchsorted(group, group)
    if not rank.any():
        return lines
    running = aggregation.running(lines, group)
    if running is not None:
        return running
    pair = group_numbers(rank % 2 == 0)
    of_pairs = group[np.searchsorted(pair, np.arange(pair[-1] + 1))]
    pairs = prefixes(aggregation, merge_groups(aggregation, lines, pair), of_pairs)
    first, odd = rank == 0, rank % 2 == 1
    rest = np.flatnonzero(~first & ~odd)
    later = _merged(aggregation, [pairs[pair[rest] - 1], lines[rest]], [rest, rest])
    merged = stacked([lines[np.flatnonzero(first)], pairs[pair[odd]], later])
    order = np.concatenate([np.flatnonzero(first), np.flatnonzero(odd), rest])
    return merged[np.argsort(order)]


def merged_ranges(
    aggregation: Aggregation, lines: pl.DataFrame, begin: Numbers, length: int
) -> pl.DataFrame:
    """Return for each position in ``begin`` the merge of the ``length`` lines from there on.

    All these lines must exist.  Intermediate merges of lines that do not belong together are never
    read.
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
