"""Early panes of sessions: published before they close, at exact rows or by processing time.

See docs/semantics.md, "Early panes of sessions".  A row may open a session, extend one or join
several.  A pane shows the session as its row left it.

1. Each row makes a *version* of a session (history.py), and some versions fire (firing.py).
2. Rows belong to *blocks*.  The block of a row is the first version that the row is part of and
   that fires or is the last of its session.
3. A discarding pane shows its block.  An accumulating pane also shows the blocks below it, which
   prefixes along paths through the forest of versions add up.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.operators.firing import BLOCK, ROW
from tidemark.core.operators.operator import Frames, WindowBody
from tidemark.core.operators.ports import PANES, Port
from tidemark.core.operators.sessions.early_state import EarlySessionState
from tidemark.core.operators.sessions.facts import (
    FACTS,
    HIGHEST,
    PUBLISHED_END,
    PUBLISHED_ROWS,
    RECORDED,
    SHOWN_EARLY,
)
from tidemark.core.operators.sessions.firing import Versions, accumulating, discarding
from tidemark.core.operators.sessions.fold import NONE
from tidemark.core.operators.sessions.operator import SessionAggregate, SessionMatch, merged_facts
from tidemark.core.operators.sessions.state import SessionState
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import stacked
from tidemark.core.state.doubling import heavy_paths, roots, subtree_totals
from tidemark.core.state.keyed_lines import Facts, Mask, Numbers
from tidemark.core.state.line_table import LineMatches
from tidemark.core.state.prefixes import prefixes
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.core.windows.pane import (
    EARLY,
    END,
    FINAL,
    LATE,
    RETRACTED,
    START,
    TIMING,
    pane_frame,
    timing_where,
)
from tidemark.core.windows.trigger import Every, EveryProcessingTime, OnClose, late_rows_of

_BEFORE_ROWS = -1
"""In place of a row's number: the pane fired before the first row."""


@dataclass(frozen=True)
class EarlySessionAggregate(WindowBody):
    """Aggregate each key's rows in sessions, with early panes by the trigger of ``inner``."""

    inner: SessionAggregate

    @cached_property
    def _every(self) -> Every:
        trigger = self.inner.trigger
        every = trigger.early if isinstance(trigger, OnClose) else trigger
        assert isinstance(every, Every), f"no early panes of sessions {trigger}"
        return every

    @property
    def _closes(self) -> bool:
        return isinstance(self.inner.trigger, OnClose)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of the sessions."""
        return self.inner.outputs

    def open(self, store: BlockStore = IN_MEMORY) -> EarlySessionState:
        """Return empty state."""
        return EarlySessionState(self.inner.open(store))

    def record(self, state: EarlySessionState, now_ms: int, clock_ms: int) -> None:
        """Take the processing time of a segment; in a new interval, fire panes of unshown rows."""
        before_ms, state.now_ms = state.now_ms, now_ms
        if not isinstance(self._every, EveryProcessingTime):
            return
        interval_ms = self._every.interval_ms
        if before_ms // interval_ms == now_ms // interval_ms:
            return
        wait_ms = 0 if self._closes else self.inner.allowed_lateness_ms
        begun_ms = now_ms // interval_ms * interval_ms
        found = state.sessions.unshown(max(NEVER_MS, clock_ms - wait_ms), begun_ms)
        if found is not None:
            self._show_recorded(found, clock_ms, state)

    def rests(self, state: EarlySessionState, before_ms: int, clock_ms: int) -> bool:
        """Whether the clock stands still, and processing time fires no panes."""
        by_processing_time = isinstance(self._every, EveryProcessingTime)
        return not by_processing_time and super().rests(state, before_ms, clock_ms)

    def _show_recorded(self, found: LineMatches, clock_ms: int, state: EarlySessionState) -> None:
        """Fire the panes of sessions as they are before the segment's rows."""
        facts = found.facts.copy()
        facts[PUBLISHED_ROWS], facts[PUBLISHED_END] = facts[ROWS], facts[END]
        facts[SHOWN_EARLY] = self._closes
        was = state.sessions.replace(found, facts)
        held = self.inner.since(was.partials, was.facts)
        late = facts[END] <= clock_ms
        rows = np.full(late.size, _BEFORE_ROWS)
        panes = self._panes(was.keys, facts, late, held, rows)
        state.fired.append(panes.sort(END, *self.inner.key, START))

    def fold(self, rows: pl.DataFrame, state: EarlySessionState) -> pl.DataFrame:
        """Merge rows into sessions and fire early panes; return late rows."""
        late = self.inner.too_late(rows)
        kept = rows.filter(pl.Series(~late)) if late.any() else rows
        if not kept.is_empty():
            match = self.inner.match(kept, state.sessions, versions=True)
            if match.merged.first_row.size:
                self._merge(kept, match, state)
            late[np.flatnonzero(~late)[match.merged.of_row == NONE]] = True
        return self.inner.late_rows(rows.filter(pl.Series(late)) if late.any() else rows.clear())

    def _merge(self, rows: pl.DataFrame, match: SessionMatch, state: EarlySessionState) -> None:
        """Put the sessions that rows make, and fire the panes of their versions."""
        accepted = np.flatnonzero(match.merged.of_row != NONE)
        taken = match.found.where(match.touched)
        before = self._taken(taken, state.sessions)
        rows = rows[accepted].hstack([pl.Series(ROW, accepted)])
        versions = self._versions(rows, match, taken)
        if self.inner.discarding:
            shown, pane = discarding(versions, self._every), None
        else:
            shown, pane = accumulating(versions, self._every)
            self._withdraw(rows, versions, pane, state)
        blocks, held = self._held(rows, before, versions, shown)
        fires = shown[blocks]
        if fires.any():
            self._fire(rows, versions, blocks[fires], held[np.flatnonzero(fires)], state)
        facts = merged_facts(match, discarding=self.inner.discarding)
        ends = np.flatnonzero(versions.last[blocks])
        number = match.merged.of_row[accepted[blocks[ends] - versions.stored]]
        ends = ends[np.argsort(number)]
        held, ends = held[ends], blocks[ends]
        if pane is None:
            facts[PUBLISHED_ROWS] = facts[ROWS] - np.where(shown[ends], 0, held[ROWS].to_numpy())
            facts[SHOWN_EARLY] = shown[ends] & self._closes
        else:
            self._set_published(facts, taken.facts, versions, pane[ends])
            if late_rows_of(self.inner.trigger) > 1:
                gone = roots(versions.above)[versions.moved & (pane != NONE)]
                facts[SHOWN_EARLY] |= np.isin(ends, gone)
        self._note(facts, versions.highest_ms[ends], state)
        state.sessions.put(match.lines(facts, held))

    def _taken(self, taken: LineMatches, sessions: SessionState) -> list[pl.DataFrame]:
        """Take sessions out of the state; return their partials, numbered by BLOCK."""
        if not taken.slot.size:
            return []
        number = pl.Series(BLOCK, np.arange(taken.slot.size))
        return [self.inner.since(sessions.take(taken).hstack([number]), taken.facts)]

    def _versions(self, rows: pl.DataFrame, match: SessionMatch, taken: LineMatches) -> Versions:
        """Return the versions of the stored sessions and of the rows that are not late."""
        made = np.concatenate([match.touched, match.merged.of_row != NONE])
        every, number = (
            np.arange(np.count_nonzero(made)),
            np.add.accumulate(made.astype(np.int64)) - 1,
        )
        into = match.into[made]
        above = np.where(into == NONE, every, number[into])
        facts, at_ms = taken.facts, rows[EVENT_TIME].to_numpy()
        highest_ms = np.concatenate([self._highest(facts), at_ms])
        end_ms = np.concatenate([facts[END], self.inner.windows.ends(rows)])
        start_ms = np.concatenate([facts[START], at_ms])
        counts = np.concatenate([facts[ROWS], np.ones(at_ms.size, np.int64)])
        end_ms = subtree_totals(above, end_ms, np.maximum)
        counts = subtree_totals(above, counts, np.add)
        may_fire = np.ones(every.size, np.bool_)
        if self._closes:
            may_fire[facts.size :] = end_ms[facts.size :] > rows[WATERMARK].to_numpy()
        may_fire[: facts.size] = False
        return Versions(
            facts.size,
            above,
            subtree_totals(above, start_ms, np.minimum),
            end_ms,
            subtree_totals(above, highest_ms, np.maximum),
            counts,
            np.concatenate([facts[PUBLISHED_ROWS], counts[facts.size :]]),
            np.concatenate([facts[PUBLISHED_END], end_ms[facts.size :]]),
            may_fire,
        )

    def _highest(self, facts: Facts) -> Numbers:
        """Return the highest event times of stored sessions, or NEVER_MS if they are not kept."""
        known = HIGHEST in (facts.dtype.names or ())
        return facts[HIGHEST] if known else np.full(facts.size, NEVER_MS)

    def _withdraw(
        self,
        rows: pl.DataFrame,
        versions: Versions,
        pane: Numbers,
        state: EarlySessionState,
    ) -> None:
        """Fire the withdrawals of panes whose sessions have another start now."""
        at = np.flatnonzero(versions.moved & (pane != NONE))
        if not at.size:
            return
        row = versions.above[at] - versions.stored
        facts = np.zeros(at.size, FACTS)
        facts[START] = versions.start_ms[at]
        facts[PUBLISHED_ROWS], facts[PUBLISHED_END] = (
            versions.pane_rows[pane[at]],
            versions.pane_end_ms[pane[at]],
        )
        panes = self.inner.withdrawals(
            rows[row].select(self.inner.key), facts, pl.Schema(self.inner.schema())
        )
        state.fired.append(panes.hstack([rows[row][ROW]]).sort(END, START))

    def _held(
        self, rows: pl.DataFrame, before: list[pl.DataFrame], versions: Versions, shown: Mask
    ) -> tuple[Numbers, pl.DataFrame]:
        """Return the versions that end a block, and the partials that a pane of each shows."""
        ends = shown | versions.last
        block_of = roots(np.where(ends, np.arange(ends.size), versions.above))
        before = [part.with_columns(pl.Series(BLOCK, block_of[part[BLOCK]])) for part in before]
        of_rows = rows.hstack([pl.Series(BLOCK, block_of[versions.stored :])])
        parts = self.inner.aggregation.partials(of_rows, (BLOCK,), before).sort(BLOCK)
        blocks, parts = np.flatnonzero(ends), parts.drop(BLOCK)
        if self.inner.discarding:
            return blocks, parts
        above = block_of[versions.above[blocks]]
        number = np.searchsorted(blocks, np.where(versions.last[blocks], blocks, above))
        return blocks, self._added_up(number, versions.rows[blocks], parts)

    def _added_up(self, above: Numbers, weight: Numbers, parts: pl.DataFrame) -> pl.DataFrame:
        """Return for each block the sum of its partials and those of all blocks below it."""
        top, level = heavy_paths(above, weight)
        every, made, nodes = parts.clear(), [], []
        handed_on = np.empty(0, np.int64)  # the blocks that the sums in ``every`` are added to
        for depth in range(int(level.max()), -1, -1):
            at = np.flatnonzero(level == depth)
            node = np.concatenate([handed_on, at])
            own = np.arange(node.size) >= handed_on.size
            order = np.lexsort((own, node, top[node]))
            lines = stacked([every, parts[at]])[order]
            sums = prefixes(self.inner.aggregation, lines, top[node[order]])
            sums, at = sums[np.flatnonzero(own[order])], node[order][own[order]]
            made.append(sums)
            nodes.append(at)
            hands_on = np.flatnonzero((top[at] == at) & (above[at] != at))
            every, handed_on = sums[hands_on], above[at[hands_on]]
        return stacked(made)[np.argsort(np.concatenate(nodes))]

    def _fire(
        self,
        rows: pl.DataFrame,
        versions: Versions,
        at: Numbers,
        held: pl.DataFrame,
        state: EarlySessionState,
    ) -> None:
        """Fire the panes of versions that rows made."""
        row = rows[at - versions.stored]
        late = versions.end_ms[at] <= row[WATERMARK].to_numpy()
        facts = np.zeros(at.size, FACTS)
        facts[START], facts[END] = versions.start_ms[at], versions.end_ms[at]
        facts[ROWS] = versions.rows[at]
        state.fired.append(
            self._panes(row.select(self.inner.key), facts, late, held, row[ROW].to_numpy())
        )

    def _panes(
        self, keys: pl.DataFrame, facts: Facts, late: Mask, held: pl.DataFrame, row: Numbers
    ) -> pl.DataFrame:
        timing = timing_where(late, LATE, EARLY)
        bounds = (facts[START], facts[END], facts[ROWS], timing)
        values = self.inner.aggregation.values(held)
        panes = pane_frame(keys, *bounds, final=False).hstack(values)
        return panes.select(*self.inner.schema()).hstack([pl.Series(ROW, row)])

    def _set_published(
        self, facts: Facts, stored: Facts, versions: Versions, pane: Numbers
    ) -> None:
        """Set the facts about the published panes of the sessions that rows were folded into."""
        some = np.flatnonzero(pane != NONE)
        pane = pane[some]
        for name in (PUBLISHED_ROWS, PUBLISHED_END, SHOWN_EARLY):
            facts[name] = 0
        facts[PUBLISHED_ROWS][some] = versions.pane_rows[pane]
        facts[PUBLISHED_END][some] = versions.pane_end_ms[pane]
        shown_early = np.concatenate([stored[SHOWN_EARLY], np.full(pane.size, self._closes)])
        facts[SHOWN_EARLY][some] = shown_early[np.minimum(pane, stored.size)]

    def _note(self, facts: Facts, highest_ms: Numbers, state: EarlySessionState) -> None:
        """Set the facts that later panes fire by: HIGHEST and RECORDED."""
        names = facts.dtype.names or ()
        if HIGHEST in names:
            facts[HIGHEST] = highest_ms
        if RECORDED in names:
            facts[RECORDED] = state.now_ms

    @property
    def can_portion(self) -> bool:
        """Whether the rows of a segment can be taken in portions: not by processing time."""
        return not isinstance(self._every, EveryProcessingTime)

    def flush(self, state: EarlySessionState, clock_ms: int) -> Frames:
        """Return the panes and withdrawals that rows fired."""
        return {PANES: self._fired(state, clock_ms)}

    def publish(self, state: EarlySessionState, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return fired panes in order of their rows, then the panes that the clock makes due."""
        due = self.inner.publish(state.sessions, before_ms, clock_ms)
        fired = self._fired(state, clock_ms)
        return due if fired.is_empty() else pl.concat([fired, due], how="vertical_relaxed")

    def _fired(self, state: EarlySessionState, clock_ms: int) -> pl.DataFrame:
        """Return, once, the panes and withdrawals that rows fired, in order of the rows."""
        fired = state.take_fired()
        if not fired:
            return pl.DataFrame(schema=self.inner.schema())
        columns = [frame.select(*self.inner.schema(), ROW) for frame in fired]
        panes = pl.concat(columns, how="vertical_relaxed")
        panes = panes.sort(ROW, ~pl.col(RETRACTED), maintain_order=True).drop(ROW)
        final = (pl.col(TIMING) == LATE) & ~pl.col(RETRACTED)
        final &= pl.col(END) + self.inner.allowed_lateness_ms <= clock_ms
        return panes.with_columns(final.alias(FINAL))
