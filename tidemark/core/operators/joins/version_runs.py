"""Runs of versions: sorted by key and time, each with a search for the version that counts.

The rules of versions.py are here: which of the versions of a key is the highest, and which
ones no row can reach any more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Mask, Numbers
from tidemark.core.state.block_store import Block, BlockStore
from tidemark.core.state.blocks import in_one_chunk, lines_at
from tidemark.core.state.keyed_lines import Hashes, hashes_of, running_highest, same_keys
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW

FROM = "@from"
"""Int64 ms: a version counts for rows at this time or later."""

DELETED = "@deleted"
"""Boolean: the version is a tombstone, the key has no values from then on."""

RANK = (EVENT_TIME, SOURCE, OFFSET, SUB_ROW)
"""Of the versions that count, the highest by these columns is the answer."""

NONE = -1
"""Instead of a place: no version is found."""

_MOST = 2**62
"""Limit of a group and a time as one number."""

_BLOCK_ROWS = 16_384
"""Maximum versions of a block, in stores that read frames in parts."""


@dataclass(frozen=True, slots=True)
class Run:
    """Versions in order of hash, FROM and RANK; all versions of a hash have the same key.

    ``hashes``: the distinct hashes; ``first``: the place of the first version of each, and the
    number of all.  ``from_ms``, ``at_ms``: FROM and event time of each.  ``best``: of each, the
    place of the highest one of its key up to there.  ``begins``: the first place of each block.
    ``until_ms``: the last time at which a row can reach a version of the run.
    """

    hashes: Hashes
    first: Numbers
    from_ms: Numbers
    at_ms: Numbers
    best: Numbers
    blocks: tuple[Block, ...]
    begins: Numbers
    until_ms: int

    @property
    def height(self) -> int:
        """The number of versions."""
        return int(self.from_ms.size)

    def frame(self) -> pl.DataFrame:
        """Return all versions."""
        return pl.concat([block.frame() for block in self.blocks])

    def part(self, begin: int, stop: int) -> Iterator[pl.DataFrame]:
        """Yield the versions at places from begin to stop - 1; other blocks are not loaded."""
        for block, first, end in zip(self.blocks, self.begins[:-1], self.begins[1:], strict=True):
            if max(first, begin) < min(end, stop):
                yield block.frame()[max(begin - first, 0) : stop - first]

    def find(self, hashes: Hashes, at_ms: Numbers) -> Numbers:
        """Return the place of the answer of each hash at a time, or -1."""
        group = np.searchsorted(self.hashes, hashes)
        known = np.flatnonzero(self.hashes.take(group, mode="clip") == hashes)
        group = group[known]
        low, high = self.first[group], self.first[group + 1]
        place = _last_until(self.from_ms, low, high, at_ms[known])
        found = np.full(hashes.size, NONE)
        has = place >= low
        found[known[has]] = self.best[place[has]]
        return found

    def lines(self, places: Numbers, names: Sequence[str]) -> pl.DataFrame:
        """Return columns of versions at places, in that order."""
        if len(self.blocks) == 1:
            return lines_at(self.blocks[0].frame().select(names), places)
        order = np.argsort(places, kind="stable")
        cuts = np.searchsorted(places[order], self.begins)
        parts = [
            lines_at(block.frame().select(names), places[order[low:high]] - begin)
            for block, begin, low, high in zip(
                self.blocks, self.begins[:-1], cuts[:-1], cuts[1:], strict=True
            )
            if low < high
        ]
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return lines_at(in_one_chunk(pl.concat(parts)), back)

    @classmethod
    def joined(cls, runs: "Sequence[Run]") -> "Run":
        """Return one run of runs, each with higher hashes than the run before."""
        if len(runs) == 1:
            return runs[0]
        starts = np.add.accumulate([0, *(run.height for run in runs)])
        shifted = [*zip(runs, starts[:-1], strict=True)]
        return cls(
            np.concatenate([run.hashes for run in runs]),
            np.concatenate([*(run.first[:-1] + start for run, start in shifted), starts[-1:]]),
            np.concatenate([run.from_ms for run in runs]),
            np.concatenate([run.at_ms for run in runs]),
            np.concatenate([run.best + start for run, start in shifted]),
            tuple(block for run in runs for block in run.blocks),
            np.concatenate([*(run.begins[:-1] + start for run, start in shifted), starts[-1:]]),
            max(run.until_ms for run in runs),
        )

    @classmethod
    def of(
        cls, hashes: Hashes, versions: pl.DataFrame, best: Numbers, until_ms: int, store: BlockStore
    ) -> "Run":
        """Return a run of sorted versions, of which there is at least one."""
        first = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
        frames = [*_parts(versions, store.frame_bytes)]
        return cls(
            hashes[first],
            np.append(first, hashes.size),
            versions[FROM].to_numpy(),
            versions[EVENT_TIME].to_numpy(),
            best,
            tuple(store.put(until_ms, frame) for frame in frames),
            np.cumsum([0, *(frame.height for frame in frames)]),
            until_ms,
        )

    def validate(self, key: Sequence[str]) -> None:
        """Raise AssertionError where an invariant is broken."""
        frame = self.frame()
        assert self.height == frame.height == self.first[-1] > 0, "a run is miscounted or empty"
        keys = frame.select(key)
        group = np.repeat(np.arange(self.hashes.size), np.diff(self.first))
        assert (hashes_of(keys) == self.hashes[group]).all(), "a version has another hash"
        assert same_keys(keys, lines_at(keys, self.first[group])).all(), "keys share a hash"
        grows = (np.diff(self.from_ms) >= 0) | (np.diff(group) > 0)
        assert grows.all(), "versions are out of order"


def parts_of(runs: Sequence[Run], count: int) -> Iterator[pl.DataFrame]:
    """Yield the versions of runs in order of hash, in parts; all versions of a hash are in one.

    Hashes spread evenly, so each part is about a ``count``-th of all versions.
    """
    bounds = np.array([2**64 * number // count for number in range(1, count)], np.uint64)
    cuts = [np.append(run.first[np.searchsorted(run.hashes, bounds)], run.height) for run in runs]
    begins = np.zeros(len(runs), np.int64)
    for stops in np.stack(cuts, axis=1):
        places = zip(runs, begins, stops, strict=True)
        frames = [frame for run, begin, stop in places for frame in run.part(int(begin), int(stop))]
        if frames:
            yield pl.concat(frames)
        begins = stops


def _parts(versions: pl.DataFrame, most_bytes: int | None) -> Iterator[pl.DataFrame]:
    if most_bytes is None:
        yield in_one_chunk(versions)
        return
    parts = int(versions.estimated_size()) // most_bytes + 1
    height = max(1, min(_BLOCK_ROWS, -(-versions.height // parts)))
    for begin in range(0, versions.height, height):
        yield in_one_chunk(versions[begin : begin + height])


def sorted_versions(
    versions: pl.DataFrame, key: Sequence[str]
) -> Iterator[tuple[Hashes, pl.DataFrame]]:
    """Yield hashes and versions in order of hash, FROM and RANK.

    They come in several parts only where keys share a hash: each part has one key a hash.
    """
    rest = versions
    while rest.height:
        hashes, ordered = _sorted(rest, key)
        begins = np.append(True, hashes[1:] != hashes[:-1])
        keys = ordered.select(key)
        rest = rest.clear()
        if not (same_keys(keys[1:], keys[:-1]) | begins[1:]).all():
            first = np.flatnonzero(begins)[np.add.accumulate(begins) - 1]
            own = same_keys(keys, lines_at(keys, first))
            rest = ordered.filter(pl.Series(~own))
            hashes, ordered = hashes[own], ordered.filter(pl.Series(own))
        yield hashes, ordered


def _sorted(versions: pl.DataFrame, key: Sequence[str]) -> tuple[Hashes, pl.DataFrame]:
    """Return hashes and versions in order of hash, FROM and RANK.

    Both stable sorts take little time where runs are merged, since each is in order.
    """
    hashes, from_ms = hashes_of(versions.select(key)), versions[FROM].to_numpy()
    order = np.argsort(hashes, kind="stable")
    group = _numbers_of(hashes[order])
    offset_ms = from_ms[order] - from_ms.min()
    span_ms = int(offset_ms.max()) + 1
    if (int(group[-1]) + 1) * span_ms < _MOST:
        order = order[np.argsort(group * span_ms + offset_ms, kind="stable")]
    else:
        order = np.lexsort((from_ms, hashes))
    differs = (group[1:] != group[:-1]) | (from_ms[order][1:] != from_ms[order][:-1])
    if not differs.all():  # RANK decides
        tied = np.append(~differs, False) | np.append(False, ~differs)
        at = order[tied]
        group = np.add.accumulate(np.append(True, differs))[tied]
        order[tied] = at[np.lexsort((*_rank_columns(lines_at(versions, at)), group))]
    return hashes[order], lines_at(versions, order)


def _numbers_of(ordered: Hashes) -> Numbers:
    """Return the number of each group of equal hashes, from 0."""
    numbers: Numbers = np.add.accumulate(np.append(0, ordered[1:] != ordered[:-1]))
    return numbers


def best_of(hashes: Hashes, versions: pl.DataFrame) -> Numbers:
    """Return for each version the place of the highest one of its key up to there."""
    if versions.is_empty():
        return np.empty(0, np.int64)
    at_ms, from_ms = versions[EVENT_TIME].to_numpy(), versions[FROM].to_numpy()
    same = hashes[1:] == hashes[:-1]
    tied = (at_ms[1:] == at_ms[:-1]) & (from_ms[1:] != from_ms[:-1])
    lower = np.flatnonzero(same & ((at_ms[1:] < at_ms[:-1]) | tied))
    best = np.arange(hashes.size)
    if lower.size:  # of their keys, the highest one is not always the last
        group = np.append(0, np.add.accumulate(~same))
        at = np.flatnonzero(np.isin(group, group[lower]))
        order, rank = ranked(lines_at(versions, at))
        best[at] = at[order[running_highest(rank, group[at])]]
    return best


def reachable(
    hashes: Hashes, versions: pl.DataFrame, best: Numbers, reached_ms: int, keep_ms: int
) -> Mask:
    """Return which sorted versions rows at ``reached_ms`` or later can still have.

    A version counts until a higher one counts, and within ``keep_ms`` of its time.
    """
    number = np.arange(best.size)
    highest = best == number
    following = np.minimum.accumulate(np.where(highest, number, best.size)[::-1])[::-1]
    following = np.append(following[1:], best.size)  # the next one that is the highest
    last = np.searchsorted(hashes, hashes, "right")
    from_ms = versions[FROM].to_numpy().take(following, mode="clip")
    replaced = (following < last) & (from_ms <= reached_ms)
    old = versions[EVENT_TIME].to_numpy() + keep_ms < reached_ms
    kept: Mask = highest & ~replaced & ~old
    return kept


def _last_until(values: Numbers, low: Numbers, high: Numbers, until: Numbers) -> Numbers:
    """Return the last place in each [low, high) with a value up to ``until``, or low - 1.

    Values ascend in each range, and no range is empty.
    """
    place = high - 1
    at = np.flatnonzero(values[place] > until)
    low, high, until = low[at], high[at] - 1, until[at]
    while (low < high).any():
        middle = (low + high) // 2
        over = values[middle] > until
        high = np.where(over & (low < high), middle, high)
        low = np.where(over | (low >= high), low, middle + 1)
    place[at] = low - 1
    return place


def ranked(lines: pl.DataFrame) -> tuple[Numbers, Numbers]:
    """Return the places of lines in order of RANK, and the rank of each."""
    order = np.lexsort(_rank_columns(lines))
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return order, rank


def _rank_columns(lines: pl.DataFrame) -> tuple[Numbers, ...]:
    """Return the columns of RANK as numbers, the first one last."""
    names = lines[SOURCE].unique().sort()
    source = lines[SOURCE].cast(pl.Enum(names)).to_physical()
    columns = (lines[SUB_ROW], lines[OFFSET], source, lines[EVENT_TIME])
    return tuple(column.to_numpy() for column in columns)


def is_higher(one: pl.DataFrame, other: pl.DataFrame) -> Mask:
    """Return, line by line, whether one is higher by RANK."""
    higher = np.zeros(one.height, np.bool_)
    for name in reversed(RANK):
        ours, theirs = one[name], other[name]
        higher = (ours > theirs).to_numpy() | ((ours == theirs).to_numpy() & higher)
    return higher
