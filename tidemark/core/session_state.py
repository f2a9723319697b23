"""Keyed state of sessions: few runs of live sessions, and what became of them.

A segment looks up its own keys in every run, takes the sessions it merges with and puts the results
as one new run.  No Python object per key or session.

(key, start, end) identifies a live session.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.blocks import stacked
from tidemark.core.keyed_runs import (
    Facts,
    Hashes,
    Lines,
    Mask,
    Numbers,
    hashes_of,
    joined,
    levelled,
    pieces_of,
)
from tidemark.core.operator import Changes
from tidemark.core.pane import END, START
from tidemark.core.segment import NEVER_MS
from tidemark.core.session_runs import FACTS, SessionRun

REMOVED, PUBLISHED, PUT = "removed", "published", "put"
"""Frames of the state's changes, in the order in which they apply."""


@dataclass(frozen=True, slots=True)
class Found:
    """Live sessions of some keys: number of the run, place in it, place of the key, facts."""

    run: Numbers
    at: Numbers
    key: Numbers
    facts: Facts

    def where(self, mask: Mask) -> "Found":
        """Return some of them."""
        return Found(self.run[mask], self.at[mask], self.key[mask], self.facts[mask])


class SessionState:
    """Live sessions of one operator on one log partition.

    A session lives until the clock has passed its end by the allowed lateness; it may live on
    without being seen.
    """

    def __init__(self, key: tuple[str, ...], allowed_lateness_ms: int) -> None:
        """Start empty."""
        self.key = key
        self.allowed_lateness_ms = allowed_lateness_ms
        self.runs: list[SessionRun] = []
        self._withdrawn: list[Lines] = []
        self._told: dict[str, list[pl.DataFrame]] = {REMOVED: [], PUBLISHED: []}
        self._snapshot_taken = False

    def find(self, keys: pl.DataFrame, hashes: Hashes) -> Found:
        """Return the live sessions of different keys; fastest with hashes in order."""
        found = [run.find(keys, hashes) for run in self.runs]
        none = np.empty(0, np.int64)
        facts = [run.lines.facts.take(at) for run, (at, _) in zip(self.runs, found, strict=True)]
        return Found(
            np.repeat(np.arange(len(found)), [at.size for at, _ in found]),
            np.concatenate([none, *(at for at, _ in found)]),
            np.concatenate([none, *(key for _, key in found)]),
            np.concatenate(facts) if facts else np.empty(0, FACTS),
        )

    def _by_run(self, found: Found) -> Iterable[tuple[SessionRun, Numbers]]:
        bounds = np.searchsorted(found.run, np.arange(len(self.runs) + 1)).tolist()
        for run, low, high in zip(self.runs, bounds[:-1], bounds[1:], strict=True):
            if low < high:
                yield run, found.at[low:high]

    def take(self, found: Found) -> pl.DataFrame:
        """Remove sessions that were found; return their partials, in the order of ``found``."""
        taken = []
        for run, at in self._by_run(found):
            taken.append(run.lines.partials[at])
            self._remove(run, at)
        return stacked(taken)

    def _remove(self, run: SessionRun, at: Numbers) -> None:
        self._tell(REMOVED, run, at)
        run.kill(at)

    def _tell(self, what: str, run: SessionRun, at: Numbers) -> None:
        # Nobody needs to hear what became of a session that changes() and snapshot() never showed.
        at = at if self._snapshot_taken else at[~run.fresh[at]]
        if at.size:
            facts = run.lines.facts[at]
            bounds = [pl.Series(name, np.ascontiguousarray(facts[name])) for name in (START, END)]
            self._told[what].append(run.lines.keys[at].hstack(bounds))

    def put(self, sessions: Lines) -> None:
        """Add sessions that are in no run, in order of hash."""
        self._add(SessionRun(sessions, np.ones(sessions.facts.size, np.bool_)))

    def _add(self, new: SessionRun) -> None:
        self.runs = levelled([*self.runs, new])

    def withdraw(self, found: Found) -> None:
        """Keep sessions that were found, whose panes are to be withdrawn in this segment."""
        self._withdrawn += [run.lines.at(at) for run, at in self._by_run(found)]

    def take_withdrawn(self) -> Lines | None:
        """Return the sessions whose panes are to be withdrawn."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return joined(withdrawn) if withdrawn else None

    def publish(self, end_ms: int, clock_ms: int) -> Lines | None:
        """Return the sessions with ends up to ``end_ms`` that lack a pane or rows in it.

        They count as published; those that no row can reach any more are gone.
        """
        due = []
        for run in self.runs:
            at = run.pass_due(end_ms)
            if at.size:
                due.append(run.lines.at(at))
                final = due[-1].facts[END] + self.allowed_lateness_ms <= clock_ms
                self._tell(PUBLISHED, run, at[~final])
                run.publish(at[~final])
                self._remove(run, at[final])
        return joined(due) if due else None

    def changes(self) -> Changes:
        """Return what was removed, published and put since the last call."""
        put = []
        for run in self.runs:
            at = np.flatnonzero(run.fresh & run.alive)
            if at.size:
                put.append(run.lines.at(at).frame())
            run.fresh[:] = False
        frames = {**self._told, PUT: put}
        self._told = {REMOVED: [], PUBLISHED: []}
        self._snapshot_taken = False
        return {name: pl.concat(made, how="diagonal") for name, made in frames.items() if made}

    def snapshot(self) -> Iterator[Changes]:
        """Return all live sessions."""
        self._snapshot_taken = True
        return pieces_of(self.runs, PUT)

    def size_bytes(self) -> int:
        """Return about how many bytes a snapshot would have."""
        return sum(run.size_bytes() for run in self.runs)

    def _living(self) -> pl.DataFrame | None:
        live = [run.living() for run in self.runs if run.live]
        return joined(live).frame() if live else None

    def apply(self, changes: Changes) -> None:
        """Remove, mark, then put; a session that is put replaces itself."""
        if REMOVED in changes:
            self._drop(changes[REMOVED])
        if PUBLISHED in changes:
            for run, at in self._by_run(self._identified(changes[PUBLISHED])):
                run.publish(at)
        if PUT in changes:
            self._drop(changes[PUT])
            sessions = Lines.of_frame(changes[PUT], self.key, FACTS).in_order()
            self._add(SessionRun(sessions, np.zeros(sessions.facts.size, np.bool_)))

    def _drop(self, sessions: pl.DataFrame) -> None:
        for run, at in self._by_run(self._identified(sessions)):
            run.kill(at)

    def _identified(self, sessions: pl.DataFrame) -> Found:
        """Find sessions by key, start and end."""
        keys = sessions.select(self.key)
        found = self.find(keys, hashes_of(keys))
        same = np.ones(found.at.size, np.bool_)
        for name in (START, END):
            same &= found.facts[name] == sessions[name].to_numpy()[found.key]
        return found.where(same)

    def purge(self, clock_ms: int) -> None:
        """Drop the sessions that no row can reach any more; their panes went out."""
        for run in self.runs:
            run.purge(max(NEVER_MS, clock_ms - self.allowed_lateness_ms))
        self.runs = [run for run in self.runs if run.live]

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self._withdrawn, "withdrawn panes were not published"
        for run in self.runs:
            run.validate()
        live = self._living()
        if live is not None:
            identity = live.select(*self.key, START, END)
            assert not identity.is_duplicated().any(), "a session is there twice"
