"""Lines of keyed state as columns, and the distinct keys of rows.

A line is the state of a key, or of one window of a key: the key, a few facts, and partial
aggregates.  Lines are found by a hash of their key.  The hash exists in memory only and decides
nothing: candidates are compared by key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.rows.keys import distinct_keys
from tidemark.core.state.blocks import lines_at, stacked

Facts = npt.NDArray[np.void]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


def hashes_of(keys: pl.DataFrame) -> Hashes:
    """Return the hashes of keys, UInt64, for look-ups; they are valid in this process only."""
    hashes: Hashes = keys.hash_rows(seed=0).to_numpy()
    return hashes


def keys_of(rows: pl.DataFrame, key: Sequence[str]) -> tuple[pl.DataFrame, Hashes, Numbers]:
    """Return the distinct keys in order of hash, their hashes, and the key position of each row."""
    keys, index = distinct_keys(rows, key)
    hashes = hashes_of(keys)
    order = np.argsort(hashes, kind="stable")
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    return lines_at(keys, order), hashes[order], place[index]


def running_highest(values: Numbers, group: Numbers) -> Numbers:
    """Return the running maximum within each group; groups are contiguous."""
    frame = pl.DataFrame({"value": values, "group": group})
    highest: Numbers = frame.select(pl.col("value").cum_max().over("group")).to_series().to_numpy()
    return highest


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines as columns.

    ``keys``: the key columns.  ``hashes``: of the keys.  ``facts``: a structured array with the
    operator's facts, ROWS among them.  ``partials``: partial aggregates, with ROWS.
    """

    keys: pl.DataFrame
    hashes: Hashes
    facts: Facts
    partials: pl.DataFrame

    def at(self, index: Numbers) -> "Lines":
        """Return the lines at positions ``index``, in that order."""
        return Lines(
            lines_at(self.keys, index),
            self.hashes[index],
            self.facts.take(index),
            lines_at(self.partials, index),
        )

    def in_order(self) -> "Lines":
        """Return the lines in order of hash."""
        return self.at(np.argsort(self.hashes, kind="stable"))

    def frame(self) -> pl.DataFrame:
        """Return the lines as one frame: key columns, facts, partials without ROWS."""
        names = self.facts.dtype.names or ()
        facts = [pl.Series(name, np.ascontiguousarray(self.facts[name])) for name in names]
        partials = [part for part in self.partials if part.name != ROWS]
        return self.keys.hstack([*facts, *partials])

    @classmethod
    def of_frame(cls, frame: pl.DataFrame, key: Sequence[str], dtype: np.dtype[np.void]) -> "Lines":
        """Return the lines of a frame that ``frame`` returned; ``dtype``: type of the facts."""
        names = dtype.names or ()
        facts = np.empty(frame.height, dtype)
        for name in names:
            facts[name] = frame[name].to_numpy()
        keys = frame.select(key)
        partials = frame.drop(*key, *(name for name in names if name != ROWS))
        return cls(keys, hashes_of(keys), facts, partials)


def ranges(begin: Numbers, count: Numbers) -> Numbers:
    """Return the integers of the ranges ``[begin, begin + count)``, concatenated."""
    total = np.add.accumulate(count)
    counted: Numbers = np.arange(total[-1] if total.size else 0) + np.repeat(
        begin - total + count, count
    )
    return counted


def group_ranges(begins: Mask, lines: int) -> list[tuple[int, int]]:
    """Return ranges ``(begin, stop)`` of about ``lines`` lines that never split a group.

    ``begins``: for each line, whether it is the first of its group.
    """
    first = np.flatnonzero(begins)
    cuts = first.take(np.searchsorted(first, np.arange(0, begins.size, lines)), mode="clip")
    return list(pairwise(np.unique(np.append(cuts, begins.size)).tolist()))


def joined(parts: Sequence[Lines]) -> Lines:
    """Return lines concatenated."""
    if len(parts) == 1:
        return parts[0]
    return Lines(
        pl.concat([part.keys for part in parts]),
        np.concatenate([part.hashes for part in parts]),
        np.concatenate([part.facts for part in parts]),
        stacked([part.partials for part in parts]),
    )


def same_keys(keys: pl.DataFrame, others: pl.DataFrame) -> Mask:
    """Return whether keys are equal, line by line; null equals null."""
    same = np.ones(keys.height, np.bool_)
    for ours, theirs in zip(keys, others, strict=True):
        equal = ours == theirs
        if equal.null_count():
            equal = ours.eq_missing(theirs)
        same &= equal.to_numpy()
    return same
