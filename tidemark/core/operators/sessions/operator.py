"""Session windows: one pane per key and burst of events, each before the gaps of earlier ones end.

See docs/semantics.md, "Sessions".  A segment's rows are folded in columns: rows and the stored
sessions of their keys become sessions (``session_fold``), partial aggregates follow by session
number, and the results replace the sessions that they grew from (``session_state``).

Order of one segment's panes: first the withdrawals of panes whose session got another start, then
the sessions that the clock reached and those published before that got more rows.  A session that
grew beyond the clock is open again: it waits until the clock reaches its new end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.operators.due_by_end import DueByEnd
from tidemark.core.operators.operator import missed
from tidemark.core.operators.ports import Port, window_ports
from tidemark.core.operators.sessions.facts import (
    JOINED_LATE,
    SHOWN_EARLY,
    STANDS,
    STANDS_END,
    facts_of,
)
from tidemark.core.operators.sessions.fold import NONE, Merged, Rows, Stored, merge
from tidemark.core.operators.sessions.state import SessionState
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import stacked
from tidemark.core.state.keyed_lines import Facts, Hashes, Lines, Mask, Numbers, keys_of
from tidemark.core.state.line_table import LineMatches
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.windows.pane import (
    END,
    LATE,
    ON_TIME,
    REVISION,
    START,
    pane_frame,
    pane_schema,
    timing_where,
)
from tidemark.core.windows.trigger import OnClose, OnFinal, Trigger
from tidemark.core.windows.window import Session
from tidemark.errors import PipelineError

AFTER_MERGING = "after_merging"
"""A row is late when the session it would be in after merging is late for it."""

STRICT = "strict"
"""A row is late when its event time + allowed lateness is before W, whatever sessions there are."""

_SESSION = "@session"


@dataclass(frozen=True, slots=True)
class Met:
    """Rows and the stored sessions of their keys, and what they become.

    ``into``: of stored sessions, then rows, where it was asked for (``session_fold.merge``).
    """

    keys: pl.DataFrame
    hashes: Hashes
    key_of_row: Numbers
    found: LineMatches
    merged: Merged
    into: Numbers

    @property
    def touched(self) -> Mask:
        """Return which stored sessions became part of others."""
        touched: Mask = self.merged.of_stored != NONE
        return touched

    def lines(self, facts: Facts, partials: pl.DataFrame) -> Lines:
        """Return the sessions that rows were folded into, by number."""
        key = self.key_of_row[self.merged.first_row]
        return Lines(self.keys[key], self.hashes[key], facts, partials)


@dataclass(frozen=True)
class SessionAggregate(DueByEnd):
    """Aggregate each key's rows in sessions.

    State is one partial aggregate per session until the clock has passed its end by the allowed
    lateness: bounded by the sessions that are open to some row.
    """

    windows: Session
    aggregation: Aggregation
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    allowed_lateness_ms: int = 0
    trigger: Trigger = field(default_factory=OnClose)
    lateness: str = AFTER_MERGING
    discarding: bool = False

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if self.lateness not in (AFTER_MERGING, STRICT):
            raise PipelineError(
                f"lateness must be {AFTER_MERGING!r} or {STRICT!r}, got {self.lateness!r}"
            )
        if self.allowed_lateness_ms < 0:
            raise PipelineError(
                f"allowed_lateness must not be negative, got {self.allowed_lateness_ms} ms"
            )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of panes and late rows."""
        return window_ports(
            self.key,
            self.columns,
            self.aggregation.types,
            discarding=self.discarding,
            holds_ms=None if self._withdraws else self.allowed_lateness_ms,
        )

    @property
    def _withdraws(self) -> bool:
        """Whether panes may be withdrawn.

        A withdrawal has the end of its pane, and the session may have grown on for any time since.
        """
        only_final = isinstance(self.trigger, OnFinal) or (
            self.trigger == OnClose() and self.allowed_lateness_ms == 0
        )
        return not self.discarding and not only_final

    def open(self, store: BlockStore = IN_MEMORY) -> SessionState:
        """Return state that holds nothing."""
        return SessionState(self.key, self.allowed_lateness_ms, store, facts_of(self.trigger))

    def fold(self, rows: pl.DataFrame, state: SessionState) -> pl.DataFrame:
        """Merge rows into sessions; return the late ones."""
        late = self.too_late(rows)
        kept = rows.filter(pl.Series(~late)) if late.any() else rows
        if not kept.is_empty():
            met = self.meet(kept, state)
            if met.merged.first_row.size:
                self._put(kept, met, state)
            late[np.flatnonzero(~late)[met.merged.of_row == NONE]] = True
        return self.late_rows(rows.filter(pl.Series(late)) if late.any() else rows.clear())

    def too_late(self, rows: pl.DataFrame) -> Mask:
        """Return which rows are late whatever sessions there are."""
        if self.lateness != STRICT:
            return np.zeros(rows.height, np.bool_)
        at_ms = rows[EVENT_TIME].to_numpy()
        late: Mask = at_ms + self.allowed_lateness_ms < rows[WATERMARK].to_numpy()
        return late

    def late_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Tell of late rows what they missed: having met no session, a window of their own."""
        start_ms, end_ms = rows[EVENT_TIME].to_numpy(), self.windows.ends(rows)
        return missed(rows, start_ms, end_ms, self.allowed_lateness_ms)

    def meet(self, rows: pl.DataFrame, state: SessionState, *, versions: bool = False) -> Met:
        """Find the sessions of the rows' keys, and decide what merges with what."""
        keys, hashes, key_of_row = keys_of(rows, self.key)
        found = state.find(keys, hashes)
        into = np.full(found.slot.size + rows.height if versions else 0, NONE)
        merged = merge(
            Rows(
                key_of_row,
                rows[EVENT_TIME].to_numpy(),
                self.windows.ends(rows),
                rows[WATERMARK].to_numpy(),
            ),
            Stored(found.key, found.facts[START], found.facts[END], found.facts[JOINED_LATE]),
            self.allowed_lateness_ms,
            strict=self.lateness == STRICT,
            versions=into if versions else None,
        )
        return Met(keys, hashes, key_of_row, found, merged, into)

    def _put(self, rows: pl.DataFrame, met: Met, state: SessionState) -> None:
        """Put the sessions that rows make in place of those that became part of them."""
        taken = []
        if met.touched.any():
            taken = self._taken(met, state)
        partials = self._partials(rows, met.merged.of_row, taken)
        state.put(met.lines(merged_facts(met, discarding=self.discarding), partials))

    def _taken(self, met: Met, state: SessionState) -> list[pl.DataFrame]:
        """Take sessions out of the state; return their partials by the numbers of the new ones."""
        taken, number = met.found.where(met.touched), met.merged.of_stored[met.touched]
        if not self.discarding:
            moved = taken.facts[START] != met.merged.start_ms[number]
            state.withdraw(taken.where(moved & (taken.facts[STANDS] > 0)))
        numbered = state.take(taken).hstack([pl.Series(_SESSION, number)])
        return [self.since(numbered, taken.facts)]

    def since(self, partials: pl.DataFrame, facts: Facts) -> pl.DataFrame:
        """Return what the next panes of sessions hold; discarding, only rows that none has shown.

        A session all of whose rows were shown then keeps the partial of its last pane, which counts
        no more, and is left out.
        """
        if not self.discarding:
            return partials
        new = pl.Series(ROWS, facts[ROWS] - facts[STANDS])
        return partials.with_columns(new).filter(new > 0)

    def _held(self, due: Lines) -> pl.DataFrame:
        """Return what panes hold, discarding perhaps nothing."""
        held = self.since(due.partials, due.facts)
        nothing = np.flatnonzero(due.facts[STANDS] == due.facts[ROWS])
        if not self.discarding or not nothing.size:
            return held
        some = np.flatnonzero(due.facts[STANDS] < due.facts[ROWS])
        none = pl.DataFrame({ROWS: np.zeros(nothing.size, np.int64)})
        both = self.aggregation.with_empty_groups(stacked([held, none]))
        return both[np.argsort(np.concatenate([some, nothing]))]

    def _partials(
        self, rows: pl.DataFrame, session: Numbers, taken: Sequence[pl.DataFrame]
    ) -> pl.DataFrame:
        """Return the partials of new sessions, in order: of rows and of sessions taken."""
        rows, accepted = rows.hstack([pl.Series(_SESSION, session)]), session != NONE
        if not accepted.all():
            rows = rows.filter(pl.Series(accepted))
        folded = self.aggregation.partials(rows, (_SESSION,), taken)
        return folded[np.argsort(folded[_SESSION].to_numpy())].drop(_SESSION)

    def publish(self, state: SessionState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return withdrawals, then the sessions that became due or got rows after they were."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        due = state.publish(max(NEVER_MS, clock_ms - self.wait_ms), clock_ms)
        panes = pl.DataFrame(schema=self.schema()) if due is None else self._panes(due, clock_ms)
        withdrawn = state.take_withdrawn()
        if withdrawn is None:
            return panes
        gone = self.retractions(withdrawn.keys, withdrawn.facts, panes.schema)
        return pl.concat([gone.sort(END, *self.key, START, REVISION), panes])

    @property
    def wait_ms(self) -> int:
        """How long after a session's end its last pane waits: not at all on close."""
        return 0 if isinstance(self.trigger, OnClose) else self.allowed_lateness_ms

    def schema(self) -> dict[str, pl.DataType]:
        """Return the columns of panes."""
        return pane_schema(self.key, self.columns, self.aggregation.types)

    def _panes(self, due: Lines, clock_ms: int) -> pl.DataFrame:
        facts = due.facts
        panes = pane_frame(
            due.keys,
            facts[START],
            facts[END],
            facts[ROWS],
            timing_where(facts[JOINED_LATE], LATE, ON_TIME),
            facts[END] + self.allowed_lateness_ms <= clock_ms,
        )
        values = self.aggregation.values(self._held(due))
        return panes.hstack(values).sort(END, *self.key, START, REVISION)

    def retractions(self, keys: pl.DataFrame, facts: Facts, schema: pl.Schema) -> pl.DataFrame:
        """Return the withdrawals of panes that stand."""
        panes = pane_frame(
            keys,
            facts[START],
            facts[STANDS_END],
            facts[STANDS],
            LATE,
            final=False,
            retracted=True,
        )
        nothing = (pl.lit(None, schema[name]).alias(name) for name in self.aggregation.types)
        return panes.with_columns(nothing)


def merged_facts(met: Met, *, discarding: bool) -> Facts:
    """Return the facts of merged sessions; what was published under their start stands."""
    merged, found = met.merged, met.found
    facts = np.zeros(merged.start_ms.size, found.facts.dtype)
    facts[START], facts[END], facts[JOINED_LATE] = merged.start_ms, merged.end_ms, merged.late
    facts[ROWS] = np.bincount(merged.of_row[merged.of_row != NONE], minlength=facts.size)
    kept = np.flatnonzero(merged.of_stored != NONE)
    np.add.at(facts[ROWS], merged.of_stored[kept], found.facts[ROWS][kept])
    if discarding:
        np.add.at(facts[STANDS], merged.of_stored[kept], found.facts[STANDS][kept])
        return facts
    kept = kept[found.facts[START][kept] == merged.start_ms[merged.of_stored[kept]]]
    kept = kept[np.argsort(found.facts[STANDS][kept], kind="stable")]
    for name in (STANDS, STANDS_END, SHOWN_EARLY):
        facts[name][merged.of_stored[kept]] = found.facts[name][kept]
    return facts
