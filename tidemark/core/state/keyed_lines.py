"""Keyed lines as columns, and the keys of rows.

A line is what an operator knows of a key, or of one window of a key: the key, a few facts, partial
aggregates.  Lines are found by a hash of their keys.  It lives in memory only and decides nothing:
candidates are compared by key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.rows.keys import different_keys
from tidemark.core.state.blocks import lines_at, stacked

Facts = npt.NDArray[np.void]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


def hashes_of(keys: pl.DataFrame) -> Hashes:
    """Hash keys for looking them up; good for this process only."""
    hashed = keys.hash_rows(seed=0) if keys.width > 1 else keys.to_series().hash(seed=0)
    hashes: Hashes = hashed.to_numpy()
    return hashes


def keys_of(rows: pl.DataFrame, key: Sequence[str]) -> tuple[pl.DataFrame, Hashes, Numbers]:
    """Return the different keys in order of hash, and for each row the place of its own."""
    keys, index = different_keys(rows, key)
    hashes = hashes_of(keys)
    order = np.argsort(hashes, kind="stable")
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    return lines_at(keys, order), hashes[order], place[index]


def running_highest(values: Numbers, group: Numbers) -> Numbers:
    """Return the running maximum within each group; groups lie behind each other."""
    frame = pl.DataFrame({"value": values, "group": group})
    highest: Numbers = frame.select(pl.col("value").cum_max().over("group")).to_series().to_numpy()
    return highest


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines as columns: ``keys`` (and hashes of them), facts with ROWS, and partial aggregates."""

    keys: pl.DataFrame
    hashes: Hashes
    facts: Facts
    partials: pl.DataFrame

    def at(self, index: Numbers) -> "Lines":
        """Return some of them, in the order of ``index``."""
        return Lines(
            lines_at(self.keys, index),
            self.hashes[index],
            self.facts.take(index),
            lines_at(self.partials, index),
        )

    def in_order(self) -> "Lines":
        """Return them in order of hash."""
        return self.at(np.argsort(self.hashes, kind="stable"))

    def frame(self) -> pl.DataFrame:
        """Return them as one frame: keys, facts, partials without ROWS."""
        names = self.facts.dtype.names or ()
        facts = [pl.Series(name, np.ascontiguousarray(self.facts[name])) for name in names]
        partials = [part for part in self.partials if part.name != ROWS]
        return self.keys.hstack([*facts, *partials])

    @classmethod
    def of_frame(cls, frame: pl.DataFrame, key: Sequence[str], dtype: np.dtype[np.void]) -> "Lines":
        """Read what ``frame`` returned; ``dtype`` is that of the facts."""
        names = dtype.names or ()
        facts = np.empty(frame.height, dtype)
        for name in names:
            facts[name] = frame[name].to_numpy()
        keys = frame.select(key)
        partials = frame.drop(*key, *(name for name in names if name != ROWS))
        return cls(keys, hashes_of(keys), facts, partials)


def ranges(begin: Numbers, count: Numbers) -> Numbers:
    """Return ``begin``, ``begin`` + 1 and so on, ``count`` of each."""
    total = np.add.accumulate(count)
    counted: Numbers = np.arange(total[-1] if total.size else 0) + np.repeat(
        begin - total + count, count
    )
    return counted


def group_ranges(begins: Mask, lines: int) -> list[tuple[int, int]]:
    """Return from where to where stretches of about so many lines go, none of which parts a group.

    ``begins`` says of each line whether it is the first of its group.
    """
    first = np.flatnonzero(begins)
    cuts = first.take(np.searchsorted(first, np.arange(0, begins.size, lines)), mode="clip")
    return list(pairwise(np.unique(np.append(cuts, begins.size)).tolist()))


def joined(parts: Sequence[Lines]) -> Lines:
    """Put lines under each other."""
    if len(parts) == 1:
        return parts[0]
    return Lines(
        pl.concat([part.keys for part in parts]),
        np.concatenate([part.hashes for part in parts]),
        np.concatenate([part.facts for part in parts]),
        stacked([part.partials for part in parts]),
    )


def same_keys(keys: pl.DataFrame, others: pl.DataFrame) -> Mask:
    """Compare keys line by line; null equals null."""
    same = np.ones(keys.height, np.bool_)
    for ours, theirs in zip(keys, others, strict=True):
        equal = ours == theirs
        if equal.null_count():
            equal = ours.eq_missing(theirs)
        same &= equal.to_numpy()
    return same
