"""Early panes of sessions: published before they close, at exact rows.

See docs/semantics.md, "Early panes of sessions".  A row may open a session, extend one or join
several, and a pane shows the session as that row left it.  So rows are folded in rounds, each with
all keys at once:

1. The first row of each key, which may do anything: it is merged as ``session`` merges rows.
2. The rows that follow it as long as they only extend the same session to later times.  Nothing
   else can come between, so their panes are prefixes of partials.

Rounds are as many as some key has rows that leave their predecessor's session, not as it has rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.aggregate import ROWS
from tidemark.core.block_store import IN_MEMORY, BlockStore
from tidemark.core.blocks import stacked
from tidemark.core.firing import BLOCK, PAIR, ROW
from tidemark.core.keyed_lines import Lines, Mask, Numbers, keys_of, running_highest
from tidemark.core.operator import Changes
from tidemark.core.pane import EARLY, END, FINAL, LATE, RETRACTED, REVISION, START, TIMING, framed
from tidemark.core.prefixes import prefixes
from tidemark.core.segment import EVENT_TIME, FOREVER_MS, WATERMARK
from tidemark.core.session import STRICT, SessionAggregate
from tidemark.core.session_facts import JOINED_LATE, SHOWN_EARLY, STANDS, STANDS_END
from tidemark.core.session_fold import NONE
from tidemark.core.session_state import SessionState
from tidemark.core.trigger import EveryRows, OnClose

_BY = (PAIR, BLOCK)


@dataclass
class EarlySessionState:
    """Live sessions, and the panes and withdrawals that this segment's rows fired."""

    sessions: SessionState
    fired: list[pl.DataFrame] = field(default_factory=list)

    def take_fired(self) -> list[pl.DataFrame]:
        """Return the panes that fired, once."""
        fired, self.fired = self.fired, []
        return fired

    def changes(self) -> Changes:
        """Return what changed since the last call."""
        return self.sessions.changes()

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state."""
        return self.sessions.snapshot()

    def size_bytes(self) -> int:
        """Return about how many bytes a snapshot would have."""
        return self.sessions.size_bytes()

    def open_windows(self) -> int:
        """Count the sessions."""
        return self.sessions.open_windows()

    def apply(self, changes: Changes) -> None:
        """Add one piece."""
        self.sessions.apply(changes)

    def purge(self, clock_ms: int) -> None:
        """Drop the sessions that no row can reach any more."""
        self.sessions.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        assert not self.fired, "panes that fired were not published"
        self.sessions.validate()


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows that extend sessions one after the other: number of the session, and end after each."""

    rows: pl.DataFrame
    session: Numbers
    end_ms: Numbers

    @property
    def place(self) -> Numbers:
        """Number the rows of each session from 1."""
        return np.arange(self.session.size) - np.searchsorted(self.session, self.session) + 1


@dataclass(frozen=True)
class EarlySessionAggregate:
    """Sessions of aggregates with panes before their close: ``inner`` has the trigger."""

    inner: SessionAggregate

    @property
    def _every(self) -> int:
        """After how many rows that no standing pane shows a session is shown."""
        trigger = self.inner.trigger
        every = trigger.early if isinstance(trigger, OnClose) else trigger
        assert isinstance(every, EveryRows), f"no early panes of sessions {trigger}"
        return every.rows

    @property
    def _closes(self) -> bool:
        return isinstance(self.inner.trigger, OnClose)

    def fresh(self, store: BlockStore = IN_MEMORY) -> EarlySessionState:
        """Return state that holds nothing."""
        return EarlySessionState(self.inner.fresh(store))

    def fold(self, rows: pl.DataFrame, state: EarlySessionState) -> pl.DataFrame:
        """Merge rows into sessions and fire early panes; return late rows."""
        late = self.inner.too_late(rows)
        rest = rows.hstack([pl.Series(ROW, np.arange(rows.height))]).filter(pl.Series(~late))
        # Rows of one key lie behind each other, so that a round takes a stretch of each.
        while rest.height:
            keys, _, key_of_row = keys_of(rest, self.inner.key)
            order = np.argsort(key_of_row, kind="stable")
            rest, key_of_row = rest[order], key_of_row[order]
            first = np.searchsorted(key_of_row, np.arange(keys.height))
            taken = np.zeros(rest.height, np.bool_)
            taken[first] = True
            refused = self._round(rest, key_of_row, first, taken, state)
            late[rest[ROW].to_numpy()[refused]] = True
            rest = rest.filter(pl.Series(~taken))
        return self.inner.late_rows(rows.filter(pl.Series(late)) if late.any() else rows.clear())

    def _round(
        self,
        rows: pl.DataFrame,
        key_of_row: Numbers,
        first: Numbers,
        taken: Mask,
        state: EarlySessionState,
    ) -> Numbers:
        """Fold the first row of each key and those that extend its session; mark them as taken.

        Returns the places of late rows.
        """
        firsts = rows[first]
        folded = self.inner.merged(firsts, state.sessions)
        self._withdraw(firsts, state)
        accepted = np.flatnonzero(folded.of_row != NONE)
        if folded.sessions is None:
            return first
        row_of = np.empty(accepted.size, np.int64)
        row_of[folded.of_row[accepted]] = accepted
        sessions, opened = folded.sessions, firsts[row_of]
        self._show(sessions, opened, state)
        session_of_key = np.full(first.size, NONE)
        session_of_key[row_of] = np.arange(row_of.size)
        run = self._run(rows, session_of_key[key_of_row], sessions, taken, state.sessions)
        if run.session.size:
            sessions = self._extended(sessions, run, state)
        state.sessions.put(sessions)
        refused: Numbers = first[folded.of_row == NONE]
        return refused

    def _withdraw(self, firsts: pl.DataFrame, state: EarlySessionState) -> None:
        """Keep the withdrawals of panes whose sessions the first rows of keys gave a new start."""
        withdrawn = state.sessions.take_withdrawn()
        if withdrawn is None:
            return
        panes = self.inner.retractions(withdrawn, pl.Schema(self.inner.schema()))
        rows = firsts.select(*self.inner.key, ROW)
        state.fired.append(panes.join(rows, on=self.inner.key, how="left", nulls_equal=True))

    def _show(self, sessions: Lines, rows: pl.DataFrame, state: EarlySessionState) -> None:
        """Fire the panes of sessions, each by the row that it merged with last."""
        facts = sessions.facts
        late = facts[END] <= rows[WATERMARK].to_numpy()
        fires = facts[ROWS] - facts[STANDS] >= self._every
        at = np.flatnonzero(fires & ~late if self._closes else fires)
        if not at.size:
            return
        shown = sessions.at(at)
        partials = self.inner.since(shown.partials, shown.facts)
        bounds = pl.DataFrame(
            {
                START: shown.facts[START],
                END: shown.facts[END],
                REVISION: shown.facts[ROWS],
                TIMING: np.where(late[at], LATE, EARLY),
                ROW: rows[ROW].to_numpy()[at],
            }
        )
        self._fire(shown.keys.hstack(bounds), partials, state)
        facts[STANDS][at], facts[STANDS_END][at] = shown.facts[ROWS], shown.facts[END]
        facts[SHOWN_EARLY][at] = self._closes

    def _fire(self, panes: pl.DataFrame, partials: pl.DataFrame, state: EarlySessionState) -> None:
        bounds = (panes[START], panes[END], panes[REVISION], panes[TIMING])
        whole = framed(panes, *bounds, final=False)
        values = self.inner.aggregation.values(partials)
        state.fired.append(whole.hstack(values).select(*self.inner.schema(), ROW))

    def _run(
        self,
        rows: pl.DataFrame,
        session_of_row: Numbers,
        sessions: Lines,
        taken: Mask,
        state: SessionState,
    ) -> _Run:
        """Find the rows that extend sessions, as far as none breaks off; mark them as taken."""
        place = np.flatnonzero(~taken & (session_of_row != NONE))
        rows, session = rows[place], session_of_row[place]
        at_ms, watermark_ms = rows[EVENT_TIME].to_numpy(), rows[WATERMARK].to_numpy()
        end_ms = self.inner.windows.ends(rows)
        reach_ms = np.maximum(sessions.facts[END][session], running_highest(end_ms, session))
        before_ms = np.zeros(session.size, np.int64)
        before_ms[1:] = reach_ms[:-1]
        opens = np.ones(session.size, np.bool_)
        opens[1:] = session[1:] != session[:-1]
        before_ms[opens] = sessions.facts[END][session[opens]]
        extends = (
            (at_ms >= sessions.facts[START][session])
            & (at_ms < before_ms)
            & (end_ms <= self._free_until(sessions, state)[session])
            & (before_ms > watermark_ms)
        )
        extends = -running_highest(-extends.astype(np.int64), session) == 1
        taken[place[extends]] = True
        return _Run(rows.filter(pl.Series(extends)), session[extends], reach_ms[extends])

    def _free_until(self, sessions: Lines, state: SessionState) -> Numbers:
        """Return until when each session meets no other one of its key, if it grows."""
        free_ms = np.full(sessions.facts.size, FOREVER_MS)
        others = state.find(sessions.keys, sessions.hashes)
        # One that is past its time may overlap it, or may not be seen by a row: nothing is free.
        inside = others.facts[END] > sessions.facts[START][others.key]
        later = np.maximum(others.facts[START], sessions.facts[START][others.key])
        np.minimum.at(free_ms, others.key[inside], later[inside])
        return free_ms

    def _extended(self, sessions: Lines, run: _Run, state: EarlySessionState) -> Lines:
        """Fire the panes of a run; return the sessions after it."""
        facts, of, place = sessions.facts, run.session, run.place
        first = np.maximum(1, self._every - (facts[ROWS] - facts[STANDS]))[of]
        fires = (place >= first) & ((place - first) % self._every == 0)
        block = np.where(place <= first, 1, (place - first - 1) // self._every + 2)
        revision = facts[ROWS][of] + place
        parts = self._parts(sessions, run, block)
        panes = pl.DataFrame(
            {
                PAIR: of[fires],
                BLOCK: block[fires],
                START: facts[START][of[fires]],
                END: run.end_ms[fires],
                REVISION: revision[fires],
                ROW: run.rows[ROW].to_numpy()[fires],
            }
        ).with_columns(pl.lit(EARLY).alias(TIMING))
        if panes.height:
            held = panes.select(_BY).join(parts, on=_BY, how="left", maintain_order="left")
            keys = sessions.keys[of[fires]]
            self._fire(keys.hstack(panes.drop(_BY)), held.drop(_BY), state)
        self._note(sessions, run, fires, revision)
        ended = parts.sort(_BY).unique(PAIR, keep="last", maintain_order=True)
        kept = np.setdiff1d(np.arange(facts.size), of)
        partials = stacked([sessions.partials[kept], ended.drop(_BY)])
        order = np.argsort(np.concatenate([kept, ended[PAIR].to_numpy()]))
        return Lines(sessions.keys, sessions.hashes, facts, partials[order])

    def _parts(self, sessions: Lines, run: _Run, block: Numbers) -> pl.DataFrame:
        """Return what each block of each session's pane holds, by PAIR and BLOCK."""
        numbered = run.rows.hstack([pl.Series(PAIR, run.session), pl.Series(BLOCK, block)])
        parts = self.inner.aggregation.partials(numbered, _BY)
        grown = np.unique(run.session)
        before = sessions.partials[grown].with_columns(pl.Series(PAIR, grown))
        before = self.inner.since(before, sessions.facts[grown])
        number = 1 if self.inner.discarding else 0
        lines = [before.with_columns(pl.lit(number, pl.Int64).alias(BLOCK)), parts]
        if self.inner.discarding:
            return self.inner.aggregation.combine(lines, _BY)
        every = stacked(lines).sort(_BY)
        sums = prefixes(self.inner.aggregation, every.drop(_BY), every[PAIR].to_numpy())
        return sums.hstack(every.select(_BY))

    def _note(self, sessions: Lines, run: _Run, fires: Mask, revision: Numbers) -> None:
        """Write down what sessions are after a run, and what was shown of them."""
        facts, of = sessions.facts, run.session
        watermark_ms = run.rows[WATERMARK].to_numpy()
        strict = self.inner.lateness == STRICT
        at_ms = run.rows[EVENT_TIME].to_numpy()
        past_ms = at_ms + 1 if strict else self.inner.windows.ends(run.rows)
        facts[JOINED_LATE][of[past_ms <= watermark_ms]] = True
        # Rows are in order: of each session the last one stays.
        facts[END][of], facts[ROWS][of] = run.end_ms, revision
        facts[STANDS][of[fires]], facts[STANDS_END][of[fires]] = revision[fires], run.end_ms[fires]
        facts[SHOWN_EARLY][of[fires]] = self._closes

    def publish(self, state: EarlySessionState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return what the rows fired, in their order, then what the clock made due."""
        due = self.inner.publish(state.sessions, before_ms, clock_ms)
        fired = state.take_fired()
        if not fired:
            return due
        columns = [frame.select(*self.inner.schema(), ROW) for frame in fired]
        panes = pl.concat(columns, how="vertical_relaxed")
        panes = panes.sort(ROW, ~pl.col(RETRACTED), END, START, maintain_order=True).drop(ROW)
        final = (pl.col(TIMING) == LATE) & ~pl.col(RETRACTED)
        final &= pl.col(END) + self.inner.allowed_lateness_ms <= clock_ms
        return pl.concat([panes.with_columns(final.alias(FINAL)), due], how="vertical_relaxed")
