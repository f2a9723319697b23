"""Slices of a log partition: ranges of its key groups, so that several tasks can share it.

A key group of partition p of P is p, p + P, p + 2 P and so on; slice s of S has the s-th part of
these in order.  A segment is cut into one segment per slice: the rows of the slice's keys, and all
marks.  So each of them moves a clock as the whole does, and since rows are judged by their own
sources, an operator gives of the slices together what it gives of the whole.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.rows.keys import KEY_GROUPS, key_groups
from tidemark.core.time.segment import Segment


def most_slices(partitions: int) -> int:
    """Return into how many slices a partition of a log can be cut at most, at least one."""
    return max(1, KEY_GROUPS // partitions)


def slice_segment(
    segment: Segment, key: Sequence[str], partitions: int, slices: int
) -> list[Segment]:
    """Cut a segment of a log of ``partitions`` partitions into one segment per slice."""
    streams: list[dict[str, pl.DataFrame]] = [{} for _ in range(slices)]
    for name, rows in segment.streams.items():
        for index, part in enumerate(_parts(rows, key, partitions, slices)):
            streams[index][name] = part
    return [replace(segment, streams=frames) for frames in streams]


def _parts(
    rows: pl.DataFrame, key: Sequence[str], partitions: int, slices: int
) -> list[pl.DataFrame]:
    """Split rows by slice; those of a slice stay in order."""
    slice_of = slices_of(key_groups(rows, key), partitions, slices)
    order = np.argsort(slice_of, kind="stable")
    ends = np.searchsorted(slice_of[order], np.arange(slices), side="right")
    ordered = rows[order]
    begins = [0, *ends[:-1].tolist()]
    return [ordered[begin:end] for begin, end in zip(begins, ends.tolist(), strict=True)]


def slices_of(groups: npt.NDArray[np.uint8], partitions: int, slices: int) -> npt.NDArray[np.uint8]:
    """Return the slice of each key group."""
    return (groups.astype(np.int64) // partitions * slices // most_slices(partitions)).clip(
        max=slices - 1
    ).astype(np.uint8)  # fmt: skip
