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

import numpy as np
import polars as pl

from tidemark.core.aggregate import ROWS, Aggregation
from tidemark.core.keyed_runs import Facts, Lines, Mask, Numbers, keys_of
from tidemark.core.pane import (
    END,
    FINAL,
    LATE,
    ON_TIME,
    RETRACTED,
    REVISION,
    START,
    TIMING,
    pane_schema,
)
from tidemark.core.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.session_fold import NONE, Merged, Rows, Stored, merge
from tidemark.core.session_runs import (
    DISCARDED,
    FACTS,
    JOINED_LATE,
    STANDS,
    STANDS_END,
    revision,
)
from tidemark.core.session_state import Found, SessionState
from tidemark.core.trigger import OnClose, OnFinal, Trigger
from tidemark.core.window import Session
from tidemark.core.windowed import LATE_BY
from tidemark.errors import PipelineError

AFTER_MERGING = "after_merging"
"""A row is late when the session it would be in after merging is late for it."""

STRICT = "strict"
"""A row is late when its event time + allowed lateness is before W, whatever sessions there are."""

_SESSION = "@session"


@dataclass(frozen=True)
class SessionAggregate:
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

    def fresh(self) -> SessionState:
        """Return state that holds nothing."""
        return SessionState(self.key, self.allowed_lateness_ms)

    def fold(self, rows: pl.DataFrame, state: SessionState) -> pl.DataFrame:
        """Merge rows into sessions; return the late ones."""
        late = np.zeros(rows.height, np.bool_)
        if self.lateness == STRICT:
            at_ms = rows[EVENT_TIME].to_numpy()
            late = at_ms + self.allowed_lateness_ms < rows[WATERMARK].to_numpy()
        kept = rows.filter(pl.Series(~late)) if late.any() else rows
        if not kept.is_empty():
            accepted = self._fold(kept, state)
            late[np.flatnonzero(~late)[~accepted]] = True
        return self._late(rows.filter(pl.Series(late)) if late.any() else rows.clear())

    def _late(self, rows: pl.DataFrame) -> pl.DataFrame:
        # A late row has met no session: the window it missed is its own.
        start_ms, watermark_ms = rows[EVENT_TIME].to_numpy(), rows[WATERMARK].to_numpy()
        end_ms = self.windows.ends(rows)
        by_ms = np.maximum(watermark_ms - end_ms - self.allowed_lateness_ms, 0)
        return rows.hstack(
            [pl.Series(START, start_ms), pl.Series(END, end_ms), pl.Series(LATE_BY, by_ms)]
        )

    def _fold(self, rows: pl.DataFrame, state: SessionState) -> Mask:
        """Replace the sessions that rows merge with; return which rows were accepted."""
        keys, hashes, key_of_row = keys_of(rows, self.key)
        found = state.find(keys, hashes)
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
        )
        touched: Mask = merged.of_stored != NONE
        accepted: Mask = merged.of_row != NONE
        if not accepted.any():
            return accepted
        partials = [self._partials(rows, merged.of_row, accepted)]
        if touched.any():
            number = merged.of_stored[touched]
            taken = found.where(touched)
            partials.append(self._taken(taken, merged.start_ms[number], number, state))
        key = key_of_row[merged.first_row]
        folded = self._combined(partials)
        facts = _facts(merged, found, folded[ROWS].to_numpy())
        if self.discarding:
            _discard(facts, found.where(touched).facts, merged.of_stored[touched])
        state.put(Lines(keys[key], hashes[key], facts, folded))
        return accepted

    def _taken(
        self, taken: Found, start_ms: Numbers, number: Numbers, state: SessionState
    ) -> pl.DataFrame:
        """Take sessions from the state; return their partials, each with its new session's number.

        Discarding, what a pane has shown is left out, and that pane stands for good.
        """
        facts = taken.facts
        if not self.discarding:
            moved = facts[START] != start_ms
            state.withdraw(taken.where(moved & (facts[STANDS] > 0)))
        partials = state.take(taken).hstack([pl.Series(_SESSION, number)])
        return partials.filter(pl.Series(~_shown(facts))) if self.discarding else partials

    def _partials(self, rows: pl.DataFrame, session: Numbers, accepted: Mask) -> pl.DataFrame:
        rows = rows.hstack([pl.Series(_SESSION, session)])
        if not accepted.all():
            rows = rows.filter(pl.Series(accepted))
        return self.aggregation.partials(rows, (_SESSION,))

    def _combined(self, partials: Sequence[pl.DataFrame]) -> pl.DataFrame:
        folded = partials[0]
        if len(partials) > 1:
            folded = self.aggregation.combine(partials, (_SESSION,))
        return folded[np.argsort(folded[_SESSION].to_numpy())].drop(_SESSION)

    def publish(self, state: SessionState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return withdrawals, then the sessions that became due or got rows after they were."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        wait_ms = self.allowed_lateness_ms if isinstance(self.trigger, OnFinal) else 0
        due = state.publish(max(NEVER_MS, clock_ms - wait_ms), clock_ms)
        if due is None:
            panes = pl.DataFrame(schema=self._pane_schema())
        else:
            panes = self._panes(due, clock_ms)
        withdrawn = state.take_withdrawn()
        if withdrawn is None:
            return panes
        return pl.concat([self._retractions(withdrawn, panes.schema), panes])

    def _pane_schema(self) -> dict[str, pl.DataType]:
        key = {name: self.columns[name] for name in self.key}
        return pane_schema(key, self.aggregation.types)

    def _panes(self, due: Lines, clock_ms: int) -> pl.DataFrame:
        facts = due.facts
        late = pl.Series(facts[JOINED_LATE])
        panes = due.keys.with_columns(
            pl.Series(START, facts[START]),
            pl.Series(END, facts[END]),
            pl.Series(REVISION, revision(facts)),
            pl.when(late).then(pl.lit(LATE)).otherwise(pl.lit(ON_TIME)).alias(TIMING),
            pl.Series(FINAL, facts[END] + self.allowed_lateness_ms <= clock_ms),
            pl.lit(value=False).alias(RETRACTED),
        )
        values = self.aggregation.values(due.partials)
        return panes.hstack(values).sort(END, *self.key, START, REVISION)

    def _retractions(self, withdrawn: Lines, schema: pl.Schema) -> pl.DataFrame:
        facts = withdrawn.facts
        panes = withdrawn.keys.with_columns(
            pl.Series(START, facts[START]),
            pl.Series(END, facts[STANDS_END]),
            pl.Series(REVISION, facts[STANDS]),
            pl.lit(LATE).alias(TIMING),
            pl.lit(value=False).alias(FINAL),
            pl.lit(value=True).alias(RETRACTED),
            *(pl.lit(None, schema[name]).alias(name) for name in self.aggregation.types),
        )
        return panes.sort(END, *self.key, START, REVISION)


def _shown(facts: Facts) -> Mask:
    """Tell the sessions of which a pane has shown all rows."""
    shown: Mask = facts[STANDS] == revision(facts)
    return shown


def _discard(facts: Facts, taken: Facts, number: Numbers) -> None:
    """Count in ``facts`` the rows that panes have shown of the sessions taken into each."""
    gone = taken[DISCARDED] + np.where(_shown(taken), taken[ROWS], 0)
    np.add.at(facts[DISCARDED], number, gone)


def _facts(merged: Merged, found: Found, rows: Numbers) -> Facts:
    """Return the facts of merged sessions; what was published under their start stands."""
    facts = np.zeros(rows.size, FACTS)
    facts[START], facts[END], facts[JOINED_LATE] = merged.start_ms, merged.end_ms, merged.late
    facts[ROWS] = rows
    kept = np.flatnonzero(merged.of_stored != NONE)
    kept = kept[found.facts[START][kept] == merged.start_ms[merged.of_stored[kept]]]
    kept = kept[np.argsort(found.facts[STANDS][kept], kind="stable")]
    for name in (STANDS, STANDS_END):
        facts[name][merged.of_stored[kept]] = found.facts[name][kept]
    return facts
