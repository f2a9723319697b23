"""Runs of live sessions: immutable columns with marks, found by key and by end.

A run is sorted by a hash of the key and indexed by end, with a cursor, so that asking for what is
due costs nothing when nothing is.  It never grows: sessions leave it one by one (``kill``), and
runs are merged when little of them lives.  The hash lives in memory only and decides nothing:
candidates are compared by key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.aggregate import ROWS
from tidemark.core.pane import END, START
from tidemark.core.session_fold import Mask, Numbers
from tidemark.core.slices import stacked

JOINED_LATE, STANDS, STANDS_END = "@joined_late", "@stands", "@stands_end"

FACT_NAMES = (START, END, ROWS, JOINED_LATE, STANDS, STANDS_END)

FACTS = np.dtype([(name, np.bool_ if name == JOINED_LATE else np.int64) for name in FACT_NAMES])
"""What is known of a session besides its key and partial aggregates.

* JOINED_LATE: some row joined after an end had passed, so timing is late.
* STANDS: revision of the pane published under this start and not withdrawn, 0 without one; the
  session is up to date when it equals ROWS.
* STANDS_END: the end in that pane.
"""

Facts = npt.NDArray[np.void]
Hashes = npt.NDArray[np.uint64]


def hashes_of(keys: pl.DataFrame) -> Hashes:
    """Hash keys for looking them up; good for this process only."""
    hashes: Hashes = keys.hash_rows(seed=0).to_numpy()
    return hashes


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions as columns: ``keys`` (and hashes of them), FACTS, and partial aggregates."""

    keys: pl.DataFrame
    hashes: Hashes
    facts: Facts
    partials: pl.DataFrame

    def at(self, index: Numbers) -> "Sessions":
        """Return some of them, in the order of ``index``."""
        return Sessions(
            self.keys[index], self.hashes[index], self.facts.take(index), self.partials[index]
        )

    def in_order(self) -> "Sessions":
        """Return them in order of hash."""
        return self.at(np.argsort(self.hashes, kind="stable"))

    def frame(self) -> pl.DataFrame:
        """Return them as one frame: keys, facts, partials without ROWS."""
        facts = [pl.Series(name, np.ascontiguousarray(self.facts[name])) for name in FACT_NAMES]
        return self.keys.hstack([*facts, *self.partials.drop(ROWS)])

    @classmethod
    def of_frame(cls, frame: pl.DataFrame, key: Sequence[str]) -> "Sessions":
        """Read what ``frame`` returned."""
        facts = np.empty(frame.height, FACTS)
        for name in FACT_NAMES:
            facts[name] = frame[name].to_numpy()
        keys = frame.select(key)
        partials = frame.drop(*key, *(name for name in FACT_NAMES if name != ROWS))
        return cls(keys, hashes_of(keys), facts, partials)


def joined(parts: Sequence[Sessions]) -> Sessions:
    """Put sessions under each other."""
    if len(parts) == 1:
        return parts[0]
    return Sessions(
        pl.concat([part.keys for part in parts]),
        np.concatenate([part.hashes for part in parts]),
        np.concatenate([part.facts for part in parts]),
        stacked([part.partials for part in parts]),
    )


class Run:
    """Sessions in order of hash; of each, whether it lives and whether changes told of it."""

    def __init__(self, sessions: Sessions, fresh: Mask) -> None:
        """Index sessions in order of hash that all live; ``fresh``: no changes told of them yet."""
        self.sessions = sessions
        self.fresh = fresh
        self.alive = np.ones(fresh.size, np.bool_)
        self.live = fresh.size
        end_ms = sessions.facts[END]
        self._by_end = np.argsort(end_ms, kind="stable")
        self._ends_ms = end_ms[self._by_end]
        self._due, self._purged = 0, 0

    @property
    def size(self) -> int:
        """Count the sessions, alive or not."""
        return self.alive.size

    def find(self, keys: pl.DataFrame, hashes: Hashes) -> tuple[Numbers, Numbers]:
        """Return where live sessions of the keys are, and of each the place of its key."""
        ours = self.sessions.hashes
        first = np.searchsorted(ours, hashes, "left")
        count = np.searchsorted(ours, hashes, "right") - first
        key = np.repeat(np.arange(count.size), count)
        at = np.arange(key.size) + np.repeat(first - np.cumsum(count) + count, count)
        lives = self.alive[at]
        key, at = key[lives], at[lives]
        same = _same(self.sessions.keys[at], keys[key])
        return at[same], key[same]

    def kill(self, at: Numbers) -> None:
        """Let some of the live sessions go."""
        self.alive[at] = False
        self.live -= at.size

    def pass_due(self, end_ms: int) -> Numbers:
        """Return live sessions with ends up to ``end_ms`` that lack a pane, once each."""
        stop = int(np.searchsorted(self._ends_ms, end_ms, "right"))
        at = self._by_end[self._due : stop]
        self._due = max(self._due, stop)
        at = at[self.alive[at]]
        facts = self.sessions.facts[at]
        return at[facts[STANDS] < facts[ROWS]]

    def purge(self, end_ms: int) -> None:
        """Let the sessions with ends up to ``end_ms`` go."""
        stop = int(np.searchsorted(self._ends_ms, end_ms, "right"))
        at = self._by_end[self._purged : stop]
        self._purged = max(self._purged, stop)
        self.kill(at[self.alive[at]])

    def publish(self, at: Numbers) -> None:
        """Note that panes of sessions went out."""
        facts = self.sessions.facts
        facts[STANDS][at], facts[STANDS_END][at] = facts[ROWS][at], facts[END][at]

    def living(self) -> Sessions:
        """Return the live sessions."""
        return self.sessions.at(np.flatnonzero(self.alive))

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        facts, hashes = self.sessions.facts, self.sessions.hashes
        assert self.live == np.count_nonzero(self.alive), "live sessions miscounted"
        assert bool((hashes[1:] >= hashes[:-1]).all()), "run out of order"
        assert bool((facts[STANDS] <= facts[ROWS]).all()), "a pane has more rows than its session"
        assert bool((facts[START] < facts[END]).all()), "a session ends before it starts"


def merged(runs: Sequence[Run]) -> Run:
    """Return one run with what lives in several."""
    every = joined([run.sessions for run in runs])
    live = np.flatnonzero(np.concatenate([run.alive for run in runs]))
    live = live[np.argsort(every.hashes[live], kind="stable")]
    return Run(every.at(live), np.concatenate([run.fresh for run in runs])[live])


def _same(keys: pl.DataFrame, others: pl.DataFrame) -> Mask:
    """Compare keys line by line; null equals null."""
    same = np.ones(keys.height, np.bool_)
    for ours, theirs in zip(keys, others, strict=True):
        equal = ours == theirs
        if equal.null_count():
            equal = ours.eq_missing(theirs)
        same &= equal.to_numpy()
    return same
