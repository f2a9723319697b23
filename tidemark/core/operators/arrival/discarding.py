"""Windows in order of arrival with discarding panes: each pane holds only unshown rows.

See docs/semantics.md, "Windows in order of arrival" and "Discarding".  State is one line for each
open window of a key: the number of its rows, the range of their event times, and the partials of
the rows that no pane has shown.

Theory of operation.  A *count* is a row in one of its windows.  The counts of a key and window are
in order of arrival, after the window's stored line.  A *block* ends with each count that fires, and
each block is a pane.  The counts after the last firing one are the last pane of a window that
closes.  Otherwise they are stored.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.operators.arrival.body import ArrivalBody, FoldInput, complete_runs
from tidemark.core.operators.arrival.state import COUNT, RECORDED, ArrivalState
from tidemark.core.state.blocks import lines_at, stacked
from tidemark.core.state.keyed_lines import (
    Facts,
    Lines,
    Mask,
    Numbers,
    ranges,
    running_highest,
)
from tidemark.core.state.prefixes import group_numbers
from tidemark.core.time.segment import EVENT_TIME, FOREVER_MS, NEVER_MS
from tidemark.core.windows.arrival import (
    NUMBER,
    CountWindow,
    GlobalWindow,
    RowsByKey,
    RunAssignment,
)
from tidemark.core.windows.pane import EARLY, ON_TIME, WINDOW, pane_frame, timing_where
from tidemark.core.windows.trigger import EveryEventTime, EveryProcessingTime, EveryRows

LOWEST, HIGHEST = "@lowest", "@highest"
"""Facts of a window, Int64 ms: the range of event times; FOREVER_MS and NEVER_MS without rows."""

_BLOCK = "@block"
_NONE = -1


@dataclass(frozen=True, slots=True)
class _Counts:
    """Stored lines and rows in order of key, window and arrival.

    ``row``: the place of the row among the sorted rows.  For a stored line it is the place before
    the first row of its key.  ``line``: the place of the stored line, or _NONE for a row.
    ``count``, ``lowest`` and ``highest``: number and event times of the window's rows so far.
    """

    key: Numbers
    window: Numbers
    row: Numbers
    line: Numbers
    count: Numbers
    lowest: Numbers
    highest: Numbers

    def at(self, index: Numbers) -> "_Counts":
        return _Counts(*(getattr(self, name)[index] for name in self.__slots__))

    def begins(self) -> Mask:
        """Mark the first count of each key and window."""
        begins = np.ones(self.key.size, np.bool_)
        begins[1:] = (np.diff(self.key) != 0) | (np.diff(self.window) != 0)
        return begins

    def running(self) -> "_Counts":
        """Return running totals of rows and event times in each key and window."""
        group = group_numbers(self.begins())
        total = np.add.accumulate(self.count)
        before = (total - self.count)[np.searchsorted(group, group)]
        return replace(
            self,
            count=total - before,
            lowest=-running_highest(-self.lowest, group),
            highest=running_highest(self.highest, group),
        )


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Counts divided into blocks.

    ``fires``: the counts that fire.  ``closes``: the last counts of windows that close.  ``block``:
    the block of each count.  ``partials``: those of the blocks that have rows.
    """

    counts: _Counts
    fires: Mask
    closes: Mask
    block: Numbers
    partials: pl.DataFrame

    def up_to(self, at: Numbers) -> pl.DataFrame:
        """Return partials of the blocks that end with the counts at ``at``, which fire."""
        return self._held(self.block[at])

    def behind(self, at: Numbers) -> pl.DataFrame:
        """Return partials of the rows left unshown after the last counts ``at`` of windows."""
        return self._held(np.where(self.fires[at], _NONE, self.block[at]))

    def _held(self, block: Numbers) -> pl.DataFrame:
        wanted = pl.DataFrame({_BLOCK: block})
        held = wanted.join(self.partials, on=_BLOCK, how="left", maintain_order="left")
        return held.drop(_BLOCK).with_columns(pl.col(ROWS).fill_null(0))


@dataclass(frozen=True)
class DiscardingArrival(ArrivalBody):
    """Publish the rows since the last pane, by the trigger ``every`` and when a window closes.

    The work of a row grows with the number of its windows.
    """

    @cached_property
    def facts(self) -> np.dtype[np.void]:
        """The type of the facts of a window; NUMBER is the number of the window."""
        recorded = [RECORDED] if isinstance(self.every, EveryProcessingTime) else []
        own = [(name, np.int64) for name in (COUNT, LOWEST, HIGHEST, *recorded)]
        return np.dtype([*self.windows.facts.descr, *own])

    @property
    def discards(self) -> bool:
        """Whether a pane holds only rows that no earlier pane has shown: always."""
        return True

    def record(self, state: ArrivalState, now_ms: int, _clock_ms: int) -> None:
        """Fire panes of unshown rows that were recorded before this processing time interval."""
        if not isinstance(self.every, EveryProcessingTime):
            return
        lines, _ = state.record(now_ms, self.every.interval_ms)
        if lines is None:
            return
        facts, cuts = lines.facts, isinstance(self.windows, GlobalWindow)
        at = np.flatnonzero(facts[ROWS] > 0)
        known = (facts[name][at] for name in (COUNT, LOWEST, HIGHEST))
        shown = _Counts(at, facts[NUMBER][at], at, at, *known)
        closed = np.full(at.size, cuts)
        panes = self._framed(lines.keys, shown, closed, lines.partials[at])
        state.add_panes(panes.sort(*self.key, WINDOW))
        facts[ROWS] = 0
        if cuts:
            facts[NUMBER] += 1
            facts[COUNT], facts[LOWEST], facts[HIGHEST] = 0, FOREVER_MS, NEVER_MS
        state.put(Lines(lines.keys, lines.hashes, facts, pl.DataFrame({ROWS: facts[ROWS]})))

    def folded(self, fold_input: FoldInput) -> tuple[Lines, pl.DataFrame]:
        """Add rows to their windows; return the lines to store and the panes that rows fire."""
        keys, by_key, assignment = fold_input.keys, fold_input.by_key, fold_input.assignment
        closed = self.closed(complete_runs(by_key, assignment))
        counts = self._counts(by_key, assignment, fold_input.stored, fold_input.key_of_line)
        shared = self._share(counts, closed, by_key, fold_input.stored)
        panes = self._published(keys, shared, fold_input.order)
        place, facts, partials = self._kept(shared, assignment.heads, closed)
        return Lines(keys[place], fold_input.hashes[place], facts, partials), panes

    def heads(self, keys: int, stored: Lines | None, key_of_line: Numbers) -> Facts:
        """Return the facts of each key's open run, from its newest window."""
        heads = np.zeros(keys, self.windows.facts)
        if stored is None:
            return heads
        for name in self.windows.facts.names or ():
            heads[name][key_of_line] = stored.facts[COUNT if name == ROWS else name]
        if isinstance(self.windows, CountWindow):
            rows = heads[NUMBER] * self.windows.slide + heads[ROWS]
            heads[NUMBER], heads[ROWS] = np.divmod(rows, self.windows.run_rows)
        return heads

    def _counts(
        self,
        by_key: RowsByKey,
        assignment: RunAssignment,
        stored: Lines | None,
        key_of_line: Numbers,
    ) -> _Counts:
        """Return a count for each row and window, after the stored line of the window."""
        low = self.closed(assignment.number)
        many = assignment.number // self.windows.step + 1 - low
        row = np.repeat(np.arange(many.size), many)
        times = by_key.rows[EVENT_TIME].to_numpy()[row]
        parts: list[tuple[Numbers, ...]] = [
            (by_key.key[row], ranges(low, many), row, np.full(row.size, _NONE),
             np.ones(row.size, np.int64), times, times)
        ]  # fmt: skip
        if stored is not None:
            facts, line = stored.facts, np.arange(key_of_line.size)
            known = (facts[name] for name in (COUNT, LOWEST, HIGHEST))
            before = by_key.first[key_of_line] - 1
            parts.append((key_of_line, facts[NUMBER], before, line, *known))
        every = _Counts(*map(np.concatenate, zip(*parts, strict=True)))
        sorted_ = every.at(np.lexsort((every.row, every.window, every.key)))
        return sorted_.running()

    def _share(
        self, counts: _Counts, closed: Numbers, by_key: RowsByKey, stored: Lines | None
    ) -> _Blocks:
        """Decide which counts fire, and divide rows into blocks."""
        begins = counts.begins()
        closes = np.append(begins[1:], True) & (counts.window < closed[counts.key])
        fires = self._firing(counts, begins)
        if not self.windows.closed_by_next:
            fires &= ~closes
        after = np.append(False, fires[:-1])
        block = group_numbers(begins | after)
        is_row = counts.line == _NONE
        of_rows = by_key.rows[counts.row[is_row]].hstack([pl.Series(_BLOCK, block[is_row])])
        return _Blocks(counts, fires, closes, block, self._partials(of_rows, counts, block, stored))

    def _partials(
        self, rows: pl.DataFrame, counts: _Counts, block: Numbers, stored: Lines | None
    ) -> pl.DataFrame:
        """Return the partials of blocks, from rows and from stored lines."""
        others = []
        if stored is not None:
            at = np.flatnonzero(counts.line != _NONE)
            at = at[stored.facts[ROWS][counts.line[at]] > 0]
            before = stored.partials[counts.line[at]]
            others = [before.hstack([pl.Series(_BLOCK, block[at])])]
        return self.aggregation.partials(rows, (_BLOCK,), others)

    def _firing(self, counts: _Counts, begins: Mask) -> Mask:
        """Mark the counts that fire; the first row of a window fires no pane by event time."""
        is_row = counts.line == _NONE
        if isinstance(self.every, EveryRows):
            every_row: Mask = is_row & (counts.count % self.every.rows == 0)
            return every_row
        if not isinstance(self.every, EveryEventTime):
            return np.zeros(is_row.size, np.bool_)
        before = np.where(begins, NEVER_MS, np.roll(counts.highest, 1))
        step = self.every.interval_ms
        later: Mask = is_row & (before > NEVER_MS) & (counts.highest // step > before // step)
        return later

    def _published(self, keys: pl.DataFrame, shared: _Blocks, order: Numbers) -> pl.DataFrame:
        """Return panes in order of the rows that publish them, then of windows."""
        fired, closed = np.flatnonzero(shared.fires), np.flatnonzero(shared.closes)
        at = np.concatenate([fired, closed])
        done = np.arange(at.size) >= fired.size
        held = stacked([shared.up_to(fired), shared.behind(closed)])
        made = shared.counts.at(at)
        row = order[made.row + (done & self.windows.closed_by_next)]
        place = np.lexsort((made.window, row))
        return self._framed(keys, made.at(place), done[place], held[place])

    def _framed(
        self, keys: pl.DataFrame, made: _Counts, closed: Mask, held: pl.DataFrame
    ) -> pl.DataFrame:
        panes = pane_frame(
            lines_at(keys, made.key).hstack([pl.Series(WINDOW, made.window)]),
            made.lowest,
            made.highest + 1,
            made.count,
            timing_where(closed, ON_TIME, EARLY),
            closed,
        )
        return panes.hstack(self.aggregation.values(self.aggregation.with_empty_groups(held)))

    def _kept(
        self, shared: _Blocks, heads: Facts, closed: Numbers
    ) -> tuple[Numbers, Facts, pl.DataFrame]:
        """Return the open windows, or for a key without any, its next window without rows.

        Returns the place of the key, the facts and the partials of each line, in order.
        """
        last = np.append(shared.counts.begins()[1:], True)
        at = np.flatnonzero(last & ~shared.closes)
        opens = shared.counts.at(at)
        idle = np.setdiff1d(np.arange(closed.size), opens.key)
        key = np.concatenate([opens.key, idle])
        facts = np.zeros(key.size, self.facts)
        for name in heads.dtype.names or ():
            facts[name] = heads[name][key]
        none = np.zeros(idle.size, np.int64)
        facts[NUMBER] = np.concatenate([opens.window, closed[idle]])
        facts[COUNT] = np.concatenate([opens.count, none])
        facts[LOWEST] = np.concatenate([opens.lowest, none + FOREVER_MS])
        facts[HIGHEST] = np.concatenate([opens.highest, none + NEVER_MS])
        partials = stacked([shared.behind(at), pl.DataFrame({ROWS: none})])
        facts[ROWS] = partials[ROWS].to_numpy()
        order = np.lexsort((facts[NUMBER], key))
        return key[order], facts[order], partials[order]
