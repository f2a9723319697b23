"""Keyed lines and runs of them: immutable columns with marks, found by key.

A line is what an operator knows of a key, or of one window of a key: the key, a few facts, partial
aggregates.  A run holds lines in order of a hash of their keys.  It never grows: lines leave it one
by one (``kill``), and runs are merged when little of them lives.  Runs of similar size are merged
too, so their number is logarithmic in the lines that live, and a segment never rewrites the whole
state.  No Python object per key.  The hash lives in memory only and decides nothing: candidates
are compared by key.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidemark.core.aggregate import ROWS
from tidemark.core.blocks import PIECE_LINES, stacked
from tidemark.core.operator import Changes

Facts = npt.NDArray[np.void]
Hashes = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

_SMALLER = 2
"""Each run has at least this many times the live lines of the next smaller one ..."""

_FEW = 4_096
"""... and more live lines than this, but the smallest."""


def hashes_of(keys: pl.DataFrame) -> Hashes:
    """Hash keys for looking them up; good for this process only."""
    hashes: Hashes = keys.hash_rows(seed=0).to_numpy()
    return hashes


def keys_of(rows: pl.DataFrame, key: Sequence[str]) -> tuple[pl.DataFrame, Hashes, Numbers]:
    """Return the different keys in order of hash, and for each row the place of its own."""
    index = np.zeros(rows.height, np.int64)
    for name in key:
        codes = rows[name].to_arrow().dictionary_encode(null_encoding="encode")
        index = index * len(codes.dictionary) + codes.indices.to_numpy()
        if name is not key[0]:
            # Close the gaps, so that products stay small however many columns follow.
            index = pa.array(index).dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.empty(int(index.max()) + 1, np.int64)
    first[index[::-1]] = np.arange(rows.height)[::-1]
    keys = rows[list(key)][first]
    hashes = hashes_of(keys)
    order = np.argsort(hashes, kind="stable")
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    return keys[order], hashes[order], place[index]


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
            self.keys[index], self.hashes[index], self.facts.take(index), self.partials[index]
        )

    def in_order(self) -> "Lines":
        """Return them in order of hash."""
        return self.at(np.argsort(self.hashes, kind="stable"))

    def frame(self) -> pl.DataFrame:
        """Return them as one frame: keys, facts, partials without ROWS."""
        names = self.facts.dtype.names or ()
        facts = [pl.Series(name, np.ascontiguousarray(self.facts[name])) for name in names]
        return self.keys.hstack([*facts, *self.partials.drop(ROWS)])

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


class Run:
    """Lines in order of hash; of each, whether it lives and whether changes told of it."""

    def __init__(self, lines: Lines, fresh: Mask) -> None:
        """Hold lines in order of hash that all live; ``fresh``: no changes told of them yet."""
        self.lines = lines
        self.fresh = fresh
        self.alive = np.ones(fresh.size, np.bool_)
        self.live = fresh.size

    @property
    def size(self) -> int:
        """Count the lines, alive or not."""
        return self.alive.size

    def find(self, keys: pl.DataFrame, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """Return where live lines of the keys are, and of each the place of its key."""
        ours = self.lines.hashes
        first = np.searchsorted(ours, hashes, "left")
        count = np.searchsorted(ours, hashes, "right") - first
        key = np.repeat(np.arange(count.size), count)
        at = np.arange(key.size) + np.repeat(first - np.cumsum(count) + count, count)
        lives = self.alive[at]
        key, at = key[lives], at[lives]
        same = _same(self.lines.keys[at], keys[key])
        return at[same], key[same]

    def kill(self, at: Numbers) -> None:
        """Let some of the live lines go."""
        self.alive[at] = False
        self.live -= at.size

    def living(self) -> Lines:
        """Return the live lines."""
        return self.lines.at(np.flatnonzero(self.alive))

    def pieces(self) -> Iterator[pl.DataFrame]:
        """Return the live lines as they are now, though made when asked for; keys stay whole."""
        lines, at = self.lines, np.flatnonzero(self.alive)
        hashes, facts = lines.hashes[at], lines.facts.take(at)  # marks change in place
        bounds = [*np.unique(np.searchsorted(hashes, hashes[::PIECE_LINES])).tolist(), at.size]

        def piece(bounds: tuple[int, int]) -> pl.DataFrame:
            part = slice(*bounds)
            keys, partials = lines.keys[at[part]], lines.partials[at[part]]
            return Lines(keys, hashes[part], facts[part], partials).frame()

        return map(piece, pairwise(bounds))

    def size_bytes(self) -> int:
        """Return about how many bytes the live lines have."""
        lines = self.lines
        frames_bytes = lines.keys.estimated_size() + lines.partials.estimated_size()
        return int((frames_bytes + lines.facts.nbytes) * self.live) // max(1, self.size)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        hashes = self.lines.hashes
        assert self.live == np.count_nonzero(self.alive), "live lines miscounted"
        assert bool((hashes[1:] >= hashes[:-1]).all()), "run out of order"


AnyRun = TypeVar("AnyRun", bound=Run)


def levelled(runs: Sequence[AnyRun]) -> list[AnyRun]:
    """Return few runs, largest first, with what lives in those given."""
    made = sorted((run for run in runs if run.live), key=lambda run: run.live, reverse=True)
    at = len(made) - 1
    while at >= 0:
        if at and made[at - 1].live < max(_SMALLER * made[at].live, _FEW):
            made[at - 1 : at + 1] = [_merged(made[at - 1 : at + 1])]
        elif made[at].live * 2 < made[at].size:
            made[at] = _merged(made[at : at + 1])
        at -= 1
    return made


def pieces_of(runs: Sequence[Run], name: str) -> Iterator[Changes]:
    """Return the live lines of runs as pieces of a snapshot."""
    held = [run.pieces() for run in runs if run.live]
    return ({name: lines} for lines in chain.from_iterable(held))


def _merged(runs: Sequence[AnyRun]) -> AnyRun:
    """Return one run with what lives in several."""
    every = joined([run.lines for run in runs])
    live = np.flatnonzero(np.concatenate([run.alive for run in runs]))
    live = live[np.argsort(every.hashes[live], kind="stable")]
    return type(runs[0])(every.at(live), np.concatenate([run.fresh for run in runs])[live])


def _same(keys: pl.DataFrame, others: pl.DataFrame) -> Mask:
    """Compare keys line by line; null equals null."""
    same = np.ones(keys.height, np.bool_)
    for ours, theirs in zip(keys, others, strict=True):
        equal = ours == theirs
        if equal.null_count():
            equal = ours.eq_missing(theirs)
        same &= equal.to_numpy()
    return same
