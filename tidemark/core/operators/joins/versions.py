"""The versions of a table: which one answers a key at a time.

A version counts from ``FROM`` on, and the one with the highest (time, source, offset, sub_row)
among those that count is the answer (docs/semantics.md, "Tables").  Versions lie in *runs*, sorted
by hash of the key and ``FROM``; a search reads a few integers in memory, and a block only for
what it returns.  Runs of similar size are merged, as in log-structured merge trees.  Merges drop
the versions that no row can reach any more.  Where a store limits frames, a merge loads a part of
the runs at a time, so it needs little memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import polars as pl

from tidemark.core.operators.joins.version_runs import (
    DELETED,
    FROM,
    NONE,
    RANK,
    Run,
    best_of,
    is_higher,
    parts_of,
    reachable,
    sorted_versions,
)
from tidemark.core.operators.joins.version_spans import spans_of
from tidemark.core.operators.operator import Changes, Mask, Numbers
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import (
    conformed,
    in_one_chunk,
    lines_at,
    lines_or_null,
    size_tier,
    total_bytes,
)
from tidemark.core.state.keyed_lines import Hashes, hashes_of, same_keys
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, SOURCE, SUB_ROW

VERSIONS = "versions"
"""Frame of changes: versions that were added; changelogs store the name."""

_PIECE_ROWS = 16_384
"""Maximum versions of a piece of a snapshot."""

_MANY = 4
"""Number of runs of similar size that are merged."""

_FRAMES = 16
"""Frames of the largest size that a merge loads at once, about."""

_FEW = 4_096
"""Versions; all smaller runs count as of similar size."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of a search; ``run``: the number of each answer's run, or -1; ``place``: there.

    Valid until versions are added or purged.
    """

    run: Numbers
    place: Numbers


class Versions:
    """The versions of the keys of one log partition."""

    def __init__(
        self,
        key: tuple[str, ...],
        columns: Mapping[str, pl.DataType],
        keep_ms: int,
        allowed_lateness_ms: int,
        store: BlockStore = IN_MEMORY,
    ) -> None:
        """Start empty.

        Args:
            key: names of the key columns.
            columns: of versions besides the facts, with types: the key, and the values.
            keep_ms: how much older than a row a version may be that answers it.
            allowed_lateness_ms: how far rows may lie behind the clock.
            store: where blocks lie.
        """
        self._key = list(key)
        self._columns = columns
        self._keep_ms = keep_ms
        self._lateness_ms = allowed_lateness_ms
        self._store = store
        self._runs: list[Run] = []
        self._added: list[pl.DataFrame] = []
        self._reached_ms = NEVER_MS
        self._after_merge = 0
        self._spans: pl.DataFrame | None = None

    def __len__(self) -> int:
        """Return the number of stored versions."""
        return sum(run.height for run in self._runs)

    def add(self, versions: pl.DataFrame) -> None:
        """Add versions: the columns of the table, FROM, RANK, and DELETED."""
        if versions.height:
            versions = conformed(versions, self._schema)
            self._added.append(versions)
            self._put(versions)

    def spans(self) -> pl.DataFrame:
        """Return when each version is the answer of its key, see ``spans_of``; kept until a change.

        Versions that no row can reach may be missing.
        """
        if self._spans is None:
            none = pl.DataFrame(schema=self._schema)
            every = pl.concat([none, *(run.frame().select(none.columns) for run in self._runs)])
            self._spans = spans_of(every, self._key, self._keep_ms)
        return self._spans

    def drop_unreachable(self) -> None:
        """Drop all versions that no row can reach, as of the last purge."""
        if self._runs:
            self._merge(slice(None))

    def visible(self, version_ms: Numbers, at_ms: Numbers) -> Mask:
        """Return which versions are not too old for rows at a time."""
        visible: Mask = version_ms + self._keep_ms >= at_ms
        return visible

    def answers(self, rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
        """Return columns of the answers of rows; null where no version answers.

        An answer may be a tombstone.
        """
        keys, at_ms = rows.select(self._key), rows[EVENT_TIME].to_numpy()
        hashes = hashes_of(keys)
        order = np.argsort(hashes, kind="stable")
        run, place = np.full(order.size, NONE), np.full(order.size, NONE)
        found = self._highest(hashes[order], at_ms[order])
        run[order], place[order] = found.run, found.place
        columns = [*self._key, *names]
        lines = self._lines(_Answers(run, place), columns)
        wrong = np.flatnonzero(~same_keys(lines.select(self._key), keys) & (run != NONE))
        if wrong.size:  # another key has the same hash
            found = self._highest(hashes[wrong], at_ms[wrong], lines_at(keys, wrong))
            run[wrong], place[wrong] = found.run, found.place
        old = ~self.visible(self._times(_Answers(run, place)), at_ms) & (run != NONE)
        if old.any():
            run[old] = NONE
        if wrong.size or old.any():
            lines = self._lines(_Answers(run, place), columns)
        return lines.select(names)

    def _lines(self, answers: _Answers, names: Sequence[str]) -> pl.DataFrame:
        """Return columns of the answers; null where no version answers."""
        index = np.full(answers.run.size, NONE)
        parts, height = [], 0
        for number, run in enumerate(self._runs):
            at = np.flatnonzero(answers.run == number)
            if at.size:
                parts.append(run.lines(answers.place[at], names))
                index[at] = height + np.arange(at.size)
                height += at.size
        if not parts:
            return pl.DataFrame(schema={name: self._schema[name] for name in names}).clear(
                index.size
            )
        return lines_or_null(in_one_chunk(pl.concat(parts)), index)

    @property
    def _schema(self) -> dict[str, pl.DataType]:
        facts: dict[str, pl.DataType] = {
            FROM: pl.Int64(),
            EVENT_TIME: pl.Int64(),
            SOURCE: pl.String(),
            OFFSET: pl.Int64(),
            SUB_ROW: pl.Int32(),
            DELETED: pl.Boolean(),
        }
        return {**self._columns, **facts}

    def _highest(
        self, hashes: Hashes, at_ms: Numbers, keys: pl.DataFrame | None = None
    ) -> _Answers:
        """Return the highest of the answers of all runs; with ``keys``, of these keys only."""
        best = _Answers(np.full(hashes.size, NONE), np.full(hashes.size, NONE))
        best_ms = np.full(hashes.size, NEVER_MS)
        for number, run in enumerate(self._runs):
            place = run.find(hashes, at_ms)
            at = np.flatnonzero(place != NONE)
            if keys is not None and at.size:
                at = at[same_keys(run.lines(place[at], self._key), lines_at(keys, at))]
            found_ms = run.at_ms[place[at]]
            better = found_ms > best_ms[at]
            tied = np.flatnonzero((found_ms == best_ms[at]) & (best.run[at] != NONE))
            if tied.size:
                places = at[tied]
                here = run.lines(place[places], RANK)
                there = self._lines(_Answers(best.run[places], best.place[places]), RANK)
                better[tied] = is_higher(here, there)
            at, found_ms = at[better], found_ms[better]
            best.run[at], best.place[at], best_ms[at] = number, place[at], found_ms
        return best

    def _times(self, answers: _Answers) -> Numbers:
        """Return the event times of answers; 0 where no version answers."""
        times = np.zeros(answers.run.size, np.int64)
        for number, run in enumerate(self._runs):
            at = np.flatnonzero(answers.run == number)
            times[at] = run.at_ms[answers.place[at]]
        return times

    def _put(self, versions: pl.DataFrame) -> None:
        self._runs += self._runs_of(versions)
        self._spans = None
        self._runs.sort(key=lambda run: run.height, reverse=True)
        begin = size_tier([run.height for run in self._runs], _MANY, _FEW)
        if begin is not None:
            self._merge(slice(begin, begin + _MANY))

    def _merge(self, part: slice) -> None:
        """Merge runs into one, without the versions that no row can reach."""
        merged = [self._runs_of(each) for each in parts_of(self._runs[part], self._parts(part))]
        self._runs[part] = [
            Run.joined([run for run in runs if run is not None]) for runs in zip_longest(*merged)
        ]
        self._spans = None
        self._runs.sort(key=lambda run: run.height, reverse=True)

    def _parts(self, part: slice) -> int:
        """Return the number of parts in which runs are merged."""
        if self._store.frame_bytes is None:
            return 1
        size_bytes = total_bytes(block for run in self._runs[part] for block in run.blocks)
        return size_bytes // (_FRAMES * self._store.frame_bytes) + 1

    def _runs_of(self, versions: pl.DataFrame) -> list[Run]:
        """Return runs of versions, without those that no row can reach."""
        runs = []
        for hashes, ordered in sorted_versions(versions, self._key):
            best = best_of(hashes, ordered)
            if self._reached_ms != NEVER_MS:
                kept = reachable(hashes, ordered, best, self._reached_ms, self._keep_ms)
                at = np.flatnonzero(kept)
                hashes, ordered = hashes[at], lines_at(ordered, at)
                best = best_of(hashes, ordered)
            if hashes.size:
                until_ms = int(ordered[EVENT_TIME].to_numpy().max()) + self._keep_ms
                runs.append(Run.of(hashes, ordered, best, until_ms, self._store))
        return runs

    def changes(self) -> Changes:
        """Return, once, the versions added since the last call."""
        added, self._added = self._added, []
        return {VERSIONS: pl.concat(added)} if added else {}

    def snapshot(self) -> Iterator[Changes]:
        """Return all versions, in pieces."""
        blocks = [block for run in self._runs for block in run.blocks]
        return (
            {VERSIONS: block.frame()[begin : begin + _PIECE_ROWS]}
            for block in blocks
            for begin in range(0, block.height, _PIECE_ROWS)
        )

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return total_bytes(block for run in self._runs for block in run.blocks)

    def apply(self, changes: Changes) -> None:
        """Add versions of a changelog."""
        if VERSIONS in changes:
            self._put(conformed(changes[VERSIONS], self._schema))

    def purge(self, clock_ms: int) -> None:
        """Drop runs that no row can reach, and other such versions before they are many."""
        if clock_ms == NEVER_MS:
            return
        self._reached_ms = max(self._reached_ms, clock_ms - self._lateness_ms)
        self._runs = [run for run in self._runs if run.until_ms >= self._reached_ms]
        if len(self) > 2 * self._after_merge + _FEW:
            self._merge(slice(None))
            self._after_merge = len(self)
        self._after_merge = min(self._after_merge, len(self))

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        for run in self._runs:
            run.validate(self._key)
