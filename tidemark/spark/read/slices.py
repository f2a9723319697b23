"""Key-group slices of a log partition: ranges of its key groups, so that several tasks share it.

Partition p of P has the key groups p, p + P, p + 2 P and so on.  Key-group slice s of S is the s-th
part of them, in order.  A segment is cut into one segment per key-group slice, with the rows of its
keys and with all marks.

Rows without a key are all in the first slice: an operator may add up those of a log partition.
Rows of a broadcast stream are in the first slice, and all others have copies.

Each slice moves a clock as the whole segment does.  The watermark of a row depends only on its
own source.  Therefore an operator publishes for all slices together what it publishes for the
whole.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.rows.copies import COPY, in_parts
from tidemark.core.rows.keys import KEY_GROUPS, key_groups
from tidemark.core.time.segment import Segment


def most_slices(partitions: int) -> int:
    """Return the largest number of key-group slices of a log partition, at least 1."""
    return max(1, KEY_GROUPS // partitions)


def slice_segment(
    segment: Segment, key: Sequence[str], partitions: int, slices: int
) -> list[Segment]:
    """Cut a segment into one segment per key-group slice.

    Args:
        segment: a segment of a log.
        key: the key columns of the log, none for rows without a key.
        partitions: the number of partitions of the log.
        slices: the number of key-group slices.
    """
    streams: list[dict[str, pl.DataFrame]] = [{} for _ in range(slices)]
    for name, rows in segment.streams.items():
        if COPY in rows.columns:
            for index, part in enumerate(in_parts(rows, slices)):
                streams[index][name] = part
            continue
        groups = key_groups(rows, key) if key else np.zeros(rows.height, np.uint8)
        for index, part in enumerate(_parts(rows, groups, partitions, slices)):
            streams[index][name] = part
    return [replace(segment, streams=frames) for frames in streams]


def _parts(
    rows: pl.DataFrame, groups: npt.NDArray[np.uint8], partitions: int, slices: int
) -> list[pl.DataFrame]:
    """Split rows by the key-group slice of their ``groups``; each part stays in order."""
    slice_of = slices_of(groups, partitions, slices)
    order = np.argsort(slice_of, kind="stable")
    ends = np.searchsorted(slice_of[order], np.arange(slices), side="right")
    ordered = rows[order]
    begins = [0, *ends[:-1].tolist()]
    return [ordered[begin:end] for begin, end in zip(begins, ends.tolist(), strict=True)]


def slices_of(groups: npt.NDArray[np.uint8], partitions: int, slices: int) -> npt.NDArray[np.uint8]:
    """Return the number of the key-group slice of each key group."""
    return (groups.astype(np.int64) // partitions * slices // most_slices(partitions)).clip(
        max=slices - 1
    ).astype(np.uint8)  # fmt: skip
