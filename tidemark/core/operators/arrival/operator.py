"""Windows in order of arrival and rolling aggregates: functions of the log, without late rows.

See docs/semantics.md, "Windows in order of arrival".

1. A segment's rows are sorted by key and split into *runs* (core/windows/arrival.py).
2. Runs are split into *pieces*: a piece ends with its run or with a row that publishes.  Each piece
   becomes one line of partials.  The stored runs of the keys (state.py) are pieces, too.
3. The pane of an open window is a prefix of its pieces.  A closed window is a range of whole runs.

Windows close by rows, never by the clock.  So folding makes the panes, and publishing only returns
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.aggregates.basic import Max, Min
from tidemark.core.operators.arrival.body import ArrivalBody, FoldInput, complete_runs, last_rows
from tidemark.core.operators.arrival.state import RECORDED, ArrivalState
from tidemark.core.state.blocks import lines_at, stacked
from tidemark.core.state.keyed_lines import Facts, Hashes, Lines, Mask, Numbers, ranges
from tidemark.core.state.prefixes import group_numbers, merge_groups, merged_ranges, prefixes
from tidemark.core.time.row_watermarks import SEGMENT
from tidemark.core.time.segment import EVENT_TIME
from tidemark.core.windows.arrival import NUMBER, RowsByKey, RunAssignment
from tidemark.core.windows.pane import (
    EARLY,
    ON_TIME,
    WINDOW,
    pane_frame,
    timing_where,
)
from tidemark.core.windows.trigger import EveryEventTime, EveryProcessingTime, EveryRows

_PIECE = "@piece"
_FIRST, _LAST = "@first", "@last"  # aggregates: event times of the rows


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Partials of pieces, in order of key, run and arrival.

    ``number``: the number of the run, or of the window.  ``last``: the place of the piece's last
    row among the sorted rows.  For a stored run it is the place before the first row of its key.
    """

    key: Numbers
    number: Numbers
    last: Numbers
    partials: pl.DataFrame

    def at(self, index: Numbers) -> "_Pieces":
        return _Pieces(
            self.key[index],
            self.number[index],
            self.last[index],
            lines_at(self.partials, index),
        )


@dataclass(frozen=True, slots=True)
class _DuePanes:
    """Panes to publish.

    ``row``: the place, among the sorted rows, of the row that publishes the pane.  ``closed``:
    whether the window is closed.  ``line``: the place of the pane's line in ``partials``.
    """

    key: Numbers
    window: Numbers
    row: Numbers
    closed: Mask
    line: Numbers
    partials: pl.DataFrame


@dataclass(frozen=True)
class ArrivalAggregate(ArrivalBody):
    """Aggregate each key's rows in windows by their order in the log.

    State is the runs of a key's open windows, or one line for a key without any.  So it is bounded
    by the keys ever seen, times the runs of a window.  No passing of time removes any.
    """

    @cached_property
    def _timed(self) -> Aggregation:
        """The aggregates, with the lowest and the highest event time of a pane."""
        return Aggregation(
            {**self.aggregation.aggregates, _FIRST: Min(EVENT_TIME), _LAST: Max(EVENT_TIME)},
            {**self.aggregation.columns, EVENT_TIME: pl.Int64()},
        )

    @cached_property
    def facts(self) -> np.dtype[np.void]:
        """The type of the facts of a run; with a trigger by processing time also RECORDED."""
        recorded = [(RECORDED, np.int64)] if isinstance(self.every, EveryProcessingTime) else []
        return np.dtype([*self.windows.facts.descr, *recorded])

    @property
    def can_batch(self) -> bool:
        """Whether segments can be batched: not by processing time, nor if panes may be large."""
        return self.can_portion and self.has_bounded_panes

    def publish_each(
        self, state: ArrivalState, before_ms: int, clock_ms: Sequence[int]
    ) -> pl.DataFrame:
        """Return the panes that rows fired, with the segment of each row in SEGMENT."""
        panes = self.publish(state, before_ms, clock_ms[-1])
        if SEGMENT in panes.columns:
            return panes
        return panes.with_columns(pl.lit(0, pl.Int64).alias(SEGMENT))

    def record(self, state: ArrivalState, now_ms: int, _clock_ms: int) -> None:
        """Fire panes of unshown rows that were recorded before this processing time interval."""
        if not isinstance(self.every, EveryProcessingTime):
            return
        lines, key_of_line = state.record(now_ms, self.every.interval_ms)
        if lines is not None:
            state.put(lines)
            due = self._open(lines, key_of_line)
            panes = self._panes(lines.keys, due, np.arange(due.row.size))
            state.add_panes(panes.sort(*self.key, WINDOW))

    def _open(self, lines: Lines, key_of_line: Numbers) -> _DuePanes:
        """Return panes of the open windows of keys, from all lines of those keys in order.

        All open windows of a key end with its last row so far.  So each window is the sum of the
        runs from its first one on.
        """
        held = np.flatnonzero(lines.facts[ROWS] > 0)[::-1]
        key, number = key_of_line[held], lines.facts[NUMBER][held]
        begins = np.append(True, key[1:] != key[:-1])
        suffixes = prefixes(self._timed, lines.partials[held], group_numbers(begins))
        head = np.searchsorted(key_of_line, key, "right") - 1
        opens = number >= self.closed(lines.facts[NUMBER])[head] * self.windows.step
        at = np.flatnonzero(opens & (number % self.windows.step == 0))
        row, closed = np.arange(at.size), np.zeros(at.size, np.bool_)
        return _DuePanes(head[at], number[at] // self.windows.step, row, closed, at, suffixes)

    def heads(self, keys: int, stored: Lines | None, key_of_line: Numbers) -> Facts:
        """Return the facts of each key's last line, the open run."""
        heads = np.zeros(keys, self.facts)
        if stored is not None:
            heads[key_of_line] = stored.facts  # the last line of a key overwrites the others
        return heads

    def folded(self, fold_input: FoldInput) -> tuple[Lines, pl.DataFrame]:
        """Add rows to their runs; return the lines to store and the panes that rows fire."""
        keys, by_key, assignment = fold_input.keys, fold_input.by_key, fold_input.assignment
        pieces = self._pieces(by_key, assignment, fold_input.stored, fold_input.key_of_line)
        closed = self.closed(by_key.heads[NUMBER]), self.closed(complete_runs(by_key, assignment))
        if self._by_rows:
            running = self._running(pieces, closed[0])
            due = self._published(running, by_key, closed[1])
            runs = self._runs(pieces, running)
        else:
            runs = self._merged(pieces)
            due = self._complete(runs, *closed)
        kept = self._kept(keys, fold_input.hashes, runs, assignment, by_key, closed[1])
        panes = self._panes(keys, due, fold_input.order)
        if SEGMENT in by_key.rows.columns:
            segment = by_key.rows[SEGMENT].to_numpy()[due.row]
            panes = panes.hstack(
                [pl.Series(SEGMENT, np.sort(segment))]
            )  # panes are in order of their rows
        return kept, panes

    def _pieces(
        self,
        by_key: RowsByKey,
        assignment: RunAssignment,
        stored: Lines | None,
        key_of_line: Numbers,
    ) -> _Pieces:
        """Return the stored runs and the pieces of new rows, in order."""
        ends = self._ends(by_key, assignment)
        new = self._new(by_key.rows, ends)
        last = np.flatnonzero(ends)
        pieces = _Pieces(by_key.key[last], assignment.number[last], last, new)
        if stored is None:
            return pieces
        old = np.flatnonzero(stored.facts[ROWS] > 0)
        old_key = key_of_line[old]
        key = np.concatenate([old_key, pieces.key])
        number = np.concatenate([stored.facts[NUMBER][old], pieces.number])
        last = np.concatenate([by_key.first[old_key] - 1, last])
        every = _Pieces(key, number, last, stacked([lines_at(stored.partials, old), new]))
        return every.at(np.lexsort((number, key)))

    def _new(self, rows: pl.DataFrame, ends: Mask) -> pl.DataFrame:
        if ends.all():
            return self._timed.row_partials(rows)
        piece = pl.Series(_PIECE, group_numbers(np.concatenate([[True], ends[:-1]])))
        return self._timed.partials(rows.hstack([piece]), (_PIECE,)).sort(_PIECE).drop(_PIECE)

    def _ends(self, by_key: RowsByKey, assignment: RunAssignment) -> Mask:
        """Mark the rows that end a piece: the last row of a run, or a row that publishes."""
        ends = np.ones(by_key.key.size, np.bool_)
        ends[:-1] = (np.diff(by_key.key) != 0) | (np.diff(assignment.number) != 0)
        if not self._by_rows:
            return ends
        if self._every_rows == 1 or self.windows.runs > 1:
            return np.ones(ends.size, np.bool_)
        begins = np.concatenate([[True], ends[:-1]])
        place = np.arange(ends.size)
        rows = place - place[begins][group_numbers(begins)] + 1
        heads = by_key.heads[by_key.key]
        rows += np.where(assignment.number == heads[NUMBER], heads[ROWS], 0)
        ends |= rows % self._every_rows == 0
        return ends

    @property
    def _by_rows(self) -> bool:
        """Whether rows publish windows without closing them."""
        return isinstance(self.every, EveryRows | EveryEventTime)

    @property
    def _every_rows(self) -> int:
        """The smallest number of rows between two panes of a window."""
        return self.every.rows if isinstance(self.every, EveryRows) else 1

    def _runs(self, pieces: _Pieces, running: _Pieces) -> _Pieces:
        """Merge the pieces of each run; if a window is one run, ``running`` has the sums."""
        if self.windows.runs > 1:
            return self._merged(pieces)
        return running.at(np.flatnonzero(_ends(running)))

    def _merged(self, pieces: _Pieces) -> _Pieces:
        """Merge the pieces of each run."""
        begins, ends = _begins(pieces), _ends(pieces)
        partials = merge_groups(self._timed, pieces.partials, group_numbers(begins))
        return _Pieces(pieces.key[begins], pieces.number[begins], pieces.last[ends], partials)

    def _kept(
        self,
        keys: pl.DataFrame,
        hashes: Hashes,
        runs: _Pieces,
        assignment: RunAssignment,
        by_key: RowsByKey,
        closed: Numbers,
    ) -> Lines:
        """Return the runs of open windows, and an empty head for keys with a complete last run."""
        kept = runs.at(np.flatnonzero(runs.number >= (closed * self.windows.step)[runs.key]))
        complete = complete_runs(by_key, assignment)
        empty = np.flatnonzero(assignment.completes[last_rows(by_key)])
        key = np.concatenate([kept.key, empty])
        number = np.concatenate([kept.number, complete[empty]])
        partials = kept.partials
        if empty.size:
            partials = stacked([partials, pl.DataFrame({ROWS: np.zeros(empty.size, np.int64)})])
        order = np.lexsort((number, key))
        key, partials = key[order], lines_at(partials, order)
        facts = assignment.heads[key]
        facts[NUMBER] = number[order]
        facts[ROWS] = partials[ROWS].to_numpy()
        return Lines(lines_at(keys, key), hashes[key], facts, partials)

    def _complete(self, runs: _Pieces, before: Numbers, after: Numbers) -> _DuePanes:
        """Return panes of the windows that closed; each is a range of runs."""
        count = after - before
        key = np.repeat(np.arange(count.size), count)
        window = ranges(before, count)
        lines = np.searchsorted(runs.key, np.arange(count.size))
        begin = lines[key] + window * self.windows.step - runs.number[lines[key]]
        partials = merged_ranges(self._timed, runs.partials, begin, self.windows.runs)
        row = runs.last[begin + self.windows.runs - 1] + self.windows.closed_by_next
        return _DuePanes(
            key, window, row, np.ones(key.size, np.bool_), np.arange(key.size), partials
        )

    def _running(self, pieces: _Pieces, before: Numbers) -> _Pieces:
        """Return each window after each of its pieces, in order of key, window and arrival.

        ``number`` in the result is the number of the window.  ``before``: for each key, how many
        windows were closed before.
        """
        windows = self._in_windows(pieces, before) if self.windows.runs > 1 else pieces
        partials = prefixes(self._timed, windows.partials, group_numbers(_begins(windows)))
        return replace(windows, partials=partials)

    def _in_windows(self, pieces: _Pieces, before: Numbers) -> _Pieces:
        """Repeat each piece for every open window that it is in."""
        step = self.windows.step
        low = np.maximum(self.closed(pieces.number), before[pieces.key])
        count = np.maximum(pieces.number // step + 1 - low, 0)
        piece = np.repeat(np.arange(count.size), count)
        window = ranges(low, count)
        order = np.lexsort((piece, window, pieces.key[piece]))
        return replace(pieces.at(piece[order]), number=window[order])

    def _published(self, windows: _Pieces, by_key: RowsByKey, after: Numbers) -> _DuePanes:
        """Return panes of windows at every row that publishes them, and of closed windows."""
        key, window, last = windows.key, windows.number, windows.last
        closed = _ends(windows) & (window < after[key])
        early = self._fires(windows.partials, _begins(windows)) & (last >= by_key.first[key])
        if not self.windows.closed_by_next:
            early &= ~closed
        at = np.concatenate([np.flatnonzero(early), np.flatnonzero(closed)])
        done = np.arange(at.size) >= np.count_nonzero(early)
        row = last[at] + (done & self.windows.closed_by_next)
        return _DuePanes(key[at], window[at], row, done, at, windows.partials)

    def _fires(self, windows: pl.DataFrame, begins: Mask) -> Mask:
        """Mark the lines that publish; ``windows`` has a line for each piece of each window."""
        if not isinstance(self.every, EveryEventTime):
            every_row: Mask = windows[ROWS].to_numpy() % self._every_rows == 0
            return every_row
        step = windows[f"{_LAST}.max"].to_numpy() // self.every.interval_ms
        later = np.zeros(step.size, np.bool_)
        later[1:] = step[1:] > step[:-1]
        return later & ~begins

    def _panes(self, keys: pl.DataFrame, due: _DuePanes, order: Numbers) -> pl.DataFrame:
        place = np.lexsort((due.window, order[due.row]))
        lines, line_of = np.unique(due.line, return_inverse=True)
        partials = lines_at(due.partials, lines)
        values = self._timed.values(partials).hstack([partials[ROWS]])
        values = lines_at(values, line_of[place])  # after the values: partials have more columns
        closed = due.closed[place]
        panes = pane_frame(
            lines_at(keys, due.key[place]).hstack([pl.Series(WINDOW, due.window[place])]),
            values[_FIRST],
            values[_LAST].to_numpy() + 1,
            values[ROWS],
            timing_where(closed, ON_TIME, EARLY),
            closed,
        )
        return panes.hstack([values[name] for name in self.aggregation.value_types])


def _begins(pieces: _Pieces) -> Mask:
    """Mark the first piece of each run or window."""
    begins = np.ones(pieces.key.size, np.bool_)
    begins[1:] = (np.diff(pieces.key) != 0) | (np.diff(pieces.number) != 0)
    return begins


def _ends(pieces: _Pieces) -> Mask:
    """Mark the last piece of each run or window."""
    return np.append(_begins(pieces)[1:], True)
