"""Session windows: one pane per key and burst of events.

See docs/semantics.md, "Sessions".  A segment's rows are folded in columns:

1. Rows and the stored sessions of their keys become sessions with numbers (fold.py).
2. Rows are aggregated by session number, together with the partials of the stored sessions.
3. The results replace the stored sessions (state.py).

Order of one segment's panes: first the withdrawals of panes whose session has another start now.
Then the sessions that the clock has reached, and the published sessions that have more rows now.  A
session that grew beyond the clock is open again, until the clock reaches its new end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.operators.due_by_end import DueByEnd
from tidemark.core.operators.operator import missed
from tidemark.core.operators.sessions.facts import (
    HAS_LATE_ROWS,
    PUBLISHED_END,
    PUBLISHED_ROWS,
    SHOWN_EARLY,
    facts_of,
)
from tidemark.core.operators.sessions.fold import NONE, MergeResult, Rows, StoredSessions, merge
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
from tidemark.core.windows.trigger import OnClose, OnFinal, Trigger, late_rows_of
from tidemark.core.windows.window import Session
from tidemark.errors import PipelineError

STRICT = "strict"
"""A row is late when its event time + allowed lateness < W; sessions do not matter."""

AFTER_MERGING = "after_merging"
"""A row is late when the end of its session after merging + allowed lateness <= W."""

_SESSION = "@session"


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """Rows, the stored sessions of their keys, and the sessions that they become.

    ``into``: for stored sessions, then for rows, the node of the history that took each in; only if
    it was asked for (``versions`` of ``fold.merge``).
    """

    keys: pl.DataFrame
    hashes: Hashes
    key_of_row: Numbers
    found: LineMatches
    merged: MergeResult
    into: Numbers

    @property
    def touched(self) -> Mask:
        """Mark the stored sessions that became part of a session with new rows."""
        touched: Mask = self.merged.of_stored != NONE
        return touched

    def lines(self, facts: Facts, partials: pl.DataFrame) -> Lines:
        """Return the sessions that rows were folded into, in order of number."""
        key = self.key_of_row[self.merged.first_row]
        return Lines(self.keys[key], self.hashes[key], facts, partials)


@dataclass(frozen=True)
class SessionAggregate(DueByEnd):
    """Aggregate each key's rows in sessions.

    State is one partial aggregate per session, until the clock has passed the session's end by the
    allowed lateness.  So it is bounded by the sessions that a row can still join.
    """

    windows: Session
    aggregation: Aggregation
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    allowed_lateness_ms: int = 0
    trigger: Trigger = field(default_factory=OnClose)
    lateness: str = STRICT
    discarding: bool = False
    withdraws_grown: bool = False
    """Whether a pane is withdrawn as soon as its session has another end."""

    def __post_init__(self) -> None:
        """Raise PipelineError if lateness or allowed lateness is not valid."""
        if self.lateness not in (STRICT, AFTER_MERGING):
            raise PipelineError(
                f"lateness must be {STRICT!r} or {AFTER_MERGING!r}, got {self.lateness!r}"
            )
        if self.allowed_lateness_ms < 0:
            raise PipelineError(
                f"allowed_lateness must not be negative, got {self.allowed_lateness_ms} ms"
            )

    @property
    def holds_ms(self) -> int | None:
        """See ``Port.holds_ms``: None where panes of any age may be withdrawn.

        A withdrawn pane ends after the row that withdraws it.  A strict row lies within the allowed
        lateness.  Another row may lie any time behind the clock, if the session has grown since.
        """
        only_final = isinstance(self.trigger, OnFinal) or (
            self.trigger == OnClose() and self.allowed_lateness_ms == 0
        )
        bounded = self.lateness == STRICT or self.discarding or only_final
        return self.allowed_lateness_ms if bounded else None

    def open(self, store: BlockStore = IN_MEMORY) -> SessionState:
        """Return empty state."""
        return SessionState(self.key, self.allowed_lateness_ms, store, facts_of(self.trigger))

    def fold(self, rows: pl.DataFrame, state: SessionState) -> pl.DataFrame:
        """Merge rows into sessions; return the late ones."""
        late = self.too_late(rows)
        kept = rows.filter(pl.Series(~late)) if late.any() else rows
        if not kept.is_empty():
            match = self.match(kept, state)
            if match.merged.first_row.size:
                self._put(kept, match, state)
            late[np.flatnonzero(~late)[match.merged.of_row == NONE]] = True
        return self.late_rows(rows.filter(pl.Series(late)) if late.any() else rows.clear())

    def late_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that are late whatever the sessions are; only strict lateness has any."""
        return self.late_rows(rows.filter(pl.Series(self.too_late(rows))))

    def too_late(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows that are late before merging; only strict lateness has any."""
        if self.lateness != STRICT:
            return np.zeros(rows.height, np.bool_)
        at_ms = rows[EVENT_TIME].to_numpy()
        late: Mask = at_ms + self.allowed_lateness_ms < rows[WATERMARK].to_numpy()
        return late

    def late_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return late rows with the window that they missed: that of the row alone."""
        start_ms, end_ms = rows[EVENT_TIME].to_numpy(), self.windows.ends(rows)
        judged_ms = start_ms if self.lateness == STRICT else end_ms
        return missed(rows, start_ms, end_ms, judged_ms + self.allowed_lateness_ms)

    def match(
        self, rows: pl.DataFrame, state: SessionState, *, versions: bool = False
    ) -> SessionMatch:
        """Find the stored sessions of the rows' keys, and merge rows and sessions."""
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
            StoredSessions(
                found.key, found.facts[START], found.facts[END], found.facts[HAS_LATE_ROWS]
            ),
            self.allowed_lateness_ms,
            strict=self.lateness == STRICT,
            versions=into if versions else None,
        )
        return SessionMatch(keys, hashes, key_of_row, found, merged, into)

    def _put(self, rows: pl.DataFrame, match: SessionMatch, state: SessionState) -> None:
        """Put the sessions that rows make, in place of the stored sessions in them."""
        taken = []
        if match.touched.any():
            taken = self._taken(match, state)
        partials = self._partials(rows, match.merged.of_row, taken)
        facts = merged_facts(match, discarding=self.discarding)
        if self.withdraws_grown:
            grown = (facts[PUBLISHED_ROWS] > 0) & (facts[PUBLISHED_END] != facts[END])
            facts[PUBLISHED_ROWS][grown] = 0
            facts[SHOWN_EARLY][grown] = True
        state.put(match.lines(facts, partials))

    def _taken(self, match: SessionMatch, state: SessionState) -> list[pl.DataFrame]:
        """Take sessions out of the state; return their partials with the new sessions' numbers."""
        taken, number = match.found.where(match.touched), match.merged.of_stored[match.touched]
        if not self.discarding:
            moved = taken.facts[START] != match.merged.start_ms[number]
            if self.withdraws_grown:
                moved |= taken.facts[PUBLISHED_END] != match.merged.end_ms[number]
            state.withdraw(taken.where(moved & (taken.facts[PUBLISHED_ROWS] > 0)))
        numbered = state.take(taken).hstack([pl.Series(_SESSION, number)])
        return [self.since(numbered, taken.facts)]

    def since(self, partials: pl.DataFrame, facts: Facts) -> pl.DataFrame:
        """Return the partials that the next panes of sessions show.

        Discarding panes show only rows that no pane has shown.  A session without such rows is left
        out: its stored partial is that of its last pane.
        """
        if not self.discarding:
            return partials
        new = pl.Series(ROWS, facts[ROWS] - facts[PUBLISHED_ROWS])
        return partials.with_columns(new).filter(new > 0)

    def _held(self, due: Lines) -> pl.DataFrame:
        """Return the partials that due panes show; a discarding pane may show zero rows."""
        held = self.since(due.partials, due.facts)
        nothing = np.flatnonzero(due.facts[PUBLISHED_ROWS] == due.facts[ROWS])
        if not self.discarding or not nothing.size:
            return held
        some = np.flatnonzero(due.facts[PUBLISHED_ROWS] < due.facts[ROWS])
        none = pl.DataFrame({ROWS: np.zeros(nothing.size, np.int64)})
        both = self.aggregation.with_empty_groups(stacked([held, none]))
        return both[np.argsort(np.concatenate([some, nothing]))]

    def _partials(
        self, rows: pl.DataFrame, session: Numbers, taken: Sequence[pl.DataFrame]
    ) -> pl.DataFrame:
        """Return the partials of new sessions, in order of number, from rows and taken sessions."""
        rows, accepted = rows.hstack([pl.Series(_SESSION, session)]), session != NONE
        if not accepted.all():
            rows = rows.filter(pl.Series(accepted))
        folded = self.aggregation.partials(rows, (_SESSION,), taken)
        return folded[np.argsort(folded[_SESSION].to_numpy())].drop(_SESSION)

    def publish(self, state: SessionState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return withdrawals, then panes: of due sessions, and of published ones with new rows."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        due = state.publish(
            max(NEVER_MS, clock_ms - self.wait_ms),
            clock_ms,
            before_ms,
            late_rows_of(self.trigger),
        )
        panes = pl.DataFrame(schema=self.schema()) if due is None else self._panes(due, clock_ms)
        withdrawn = state.take_withdrawn()
        if withdrawn is None:
            return panes
        gone = self.withdrawals(withdrawn.keys, withdrawn.facts, panes.schema)
        return pl.concat([gone.sort(END, *self.key, START, REVISION), panes])

    def rests(self, state: SessionState, before_ms: int, clock_ms: int) -> bool:  # noqa: ARG002
        """Whether no session is due, so that a segment without rows publishes nothing."""
        return not state.is_due(max(NEVER_MS, clock_ms - self.wait_ms), clock_ms)

    @property
    def wait_ms(self) -> int:
        """The time from a session's end until its pane is due, ms; 0 with ``on_close``."""
        return 0 if isinstance(self.trigger, OnClose) else self.allowed_lateness_ms

    def schema(self) -> dict[str, pl.DataType]:
        """Return the columns of panes."""
        return pane_schema(self.key, self.columns, self.aggregation.value_types)

    def _panes(self, due: Lines, clock_ms: int) -> pl.DataFrame:
        facts = due.facts
        panes = pane_frame(
            due.keys,
            facts[START],
            facts[END],
            facts[ROWS],
            timing_where(facts[HAS_LATE_ROWS], LATE, ON_TIME),
            facts[END] + self.allowed_lateness_ms <= clock_ms,
        )
        values = self.aggregation.values(self._held(due))
        return panes.hstack(values).sort(END, *self.key, START, REVISION)

    def withdrawals(self, keys: pl.DataFrame, facts: Facts, schema: pl.Schema) -> pl.DataFrame:
        """Return the withdrawals of published panes."""
        panes = pane_frame(
            keys,
            facts[START],
            facts[PUBLISHED_END],
            facts[PUBLISHED_ROWS],
            LATE,
            final=False,
            retracted=True,
        )
        nothing = (pl.lit(None, schema[name]).alias(name) for name in self.aggregation.value_types)
        return panes.with_columns(nothing)


def merged_facts(match: SessionMatch, *, discarding: bool) -> Facts:
    """Return the facts of merged sessions; a pane published under their start stays published."""
    merged, found = match.merged, match.found
    facts = np.zeros(merged.start_ms.size, found.facts.dtype)
    facts[START], facts[END], facts[HAS_LATE_ROWS] = merged.start_ms, merged.end_ms, merged.late
    facts[ROWS] = np.bincount(merged.of_row[merged.of_row != NONE], minlength=facts.size)
    kept = np.flatnonzero(merged.of_stored != NONE)
    np.add.at(facts[ROWS], merged.of_stored[kept], found.facts[ROWS][kept])
    if discarding:
        np.add.at(facts[PUBLISHED_ROWS], merged.of_stored[kept], found.facts[PUBLISHED_ROWS][kept])
        return facts
    stays = found.facts[START][kept] == merged.start_ms[merged.of_stored[kept]]
    gone = kept[~stays & (found.facts[PUBLISHED_ROWS][kept] > 0)]
    kept = kept[stays]
    kept = kept[np.argsort(found.facts[PUBLISHED_ROWS][kept], kind="stable")]
    for name in (PUBLISHED_ROWS, PUBLISHED_END, SHOWN_EARLY):
        facts[name][merged.of_stored[kept]] = found.facts[name][kept]
    # A pane that replaces a withdrawn one must not wait for rows.
    facts[SHOWN_EARLY][merged.of_stored[gone]] = True
    return facts
