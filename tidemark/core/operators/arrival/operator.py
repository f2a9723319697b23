"""Windows in order of arrival and rolling aggregates: functions of the log, where no row is late.

See docs/semantics.md, "Windows in order of arrival".  A segment's rows are sorted by key, cut into
slices (core/windows/arrival.py) and merged with the stored slices of their keys (state.py).
Windows close by rows, never by the clock, so panes come of folding; publishing hands them on.

Each line of partials is a slice, or a piece of one that ends with a row that publishes.  Panes
before a window closes are prefixes of its lines, complete windows are stretches of slices.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS, Aggregation
from tidemark.core.aggregates.basic import Max, Min
from tidemark.core.operators.arrival.body import ArrivalBody, Folding, complete_slices, last_rows
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
    """Partials in order of key, slice and arrival.

    ``last``: the place of the last row among the sorted ones; that of a stored slice is just before
    the first row of its key.
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
class _Due:
    """Panes in the making: of which key and window, by which sorted row, and whether it closed.

    ``line``: place among the partials.
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

    State is a key's slices of open windows, and one line for a key without any: it is bounded by
    the keys ever seen (times the slices of a window), and no time takes it away.
    """

    @cached_property
    def _timed(self) -> Aggregation:
        """The aggregates, and the event times that a pane spans."""
        return Aggregation(
            {**self.aggregation.aggregates, _FIRST: Min(EVENT_TIME), _LAST: Max(EVENT_TIME)},
            {**self.aggregation.columns, EVENT_TIME: pl.Int64()},
        )

    @cached_property
    def facts(self) -> np.dtype[np.void]:
        """Type of what is stored of a slice; with processing time also when it was recorded."""
        recorded = [(RECORDED, np.int64)] if isinstance(self.every, EveryProcessingTime) else []
        return np.dtype([*self.windows.facts.descr, *recorded])

    @property
    def can_batch(self) -> bool:
        """Whether many segments can be taken as one: not where processing time publishes."""
        return not isinstance(self.every, EveryProcessingTime)

    def publish_each(
        self, state: ArrivalState, before_ms: int, clock_ms: Sequence[int]
    ) -> pl.DataFrame:
        """Return the panes that rows brought, with the segments of those rows in SEGMENT."""
        panes = self.publish(state, before_ms, clock_ms[-1])
        if SEGMENT in panes.columns:
            return panes
        return panes.with_columns(pl.lit(0, pl.Int64).alias(SEGMENT))

    def record(self, state: ArrivalState, now_ms: int, _clock_ms: int) -> None:
        """Publish what was recorded before this interval of processing time and not shown yet."""
        if not isinstance(self.every, EveryProcessingTime):
            return
        lines, key_of_line = state.record(now_ms, self.every.interval_ms)
        if lines is not None:
            state.put(lines)
            due = self._open(lines, key_of_line)
            panes = self._panes(lines.keys, due, np.arange(due.row.size))
            state.add_panes(panes.sort(*self.key, WINDOW))

    def _open(self, lines: Lines, key_of_line: Numbers) -> _Due:
        """Return the open windows of some keys, given all their lines in order.

        All of a key end with its last row for now, so each is the merged slices from its own on.
        """
        held = np.flatnonzero(lines.facts[ROWS] > 0)[::-1]
        key, number = key_of_line[held], lines.facts[NUMBER][held]
        begins = np.append(True, key[1:] != key[:-1])
        suffixes = prefixes(self._timed, lines.partials[held], group_numbers(begins))
        head = np.searchsorted(key_of_line, key, "right") - 1
        opens = number >= self.closed(lines.facts[NUMBER])[head] * self.windows.step
        at = np.flatnonzero(opens & (number % self.windows.step == 0))
        row, closed = np.arange(at.size), np.zeros(at.size, np.bool_)
        return _Due(head[at], number[at] // self.windows.step, row, closed, at, suffixes)

    def heads(self, keys: int, stored: Lines | None, key_of_line: Numbers) -> Facts:
        """Return of each key its last line, the open slice."""
        heads = np.zeros(keys, self.facts)
        if stored is not None:
            heads[key_of_line] = stored.facts  # of several lines of a key the last one stays
        return heads

    def folded(self, folding: Folding) -> tuple[Lines, pl.DataFrame]:
        """Add rows to their slices and make the panes that they bring."""
        keys, arrived, cut = folding.keys, folding.arrived, folding.cut
        pieces = self._pieces(arrived, cut, folding.stored, folding.key_of_line)
        closed = self.closed(arrived.heads[NUMBER]), self.closed(complete_slices(arrived, cut))
        if self._by_rows:
            running = self._running(pieces, closed[0])
            due = self._published(running, arrived, closed[1])
            slices = self._slices(pieces, running)
        else:
            slices = self._merged(pieces)
            due = self._complete(slices, *closed)
        kept = self._kept(keys, folding.hashes, slices, cut, arrived, closed[1])
        panes = self._panes(keys, due, folding.order)
        if SEGMENT in arrived.rows.columns:
            segment = arrived.rows[SEGMENT].to_numpy()[due.row]
            panes = panes.hstack([pl.Series(SEGMENT, np.sort(segment))])  # as rows, so are panes
        return kept, panes

    def _pieces(
        self, arrived: RowsByKey, cut: RunAssignment, stored: Lines | None, key_of_line: Numbers
    ) -> _Pieces:
        """Put the stored slices and the pieces of new ones in order."""
        ends = self._ends(arrived, cut)
        new = self._new(arrived.rows, ends)
        last = np.flatnonzero(ends)
        pieces = _Pieces(arrived.key[last], cut.number[last], last, new)
        if stored is None:
            return pieces
        old = np.flatnonzero(stored.facts[ROWS] > 0)
        old_key = key_of_line[old]
        key = np.concatenate([old_key, pieces.key])
        number = np.concatenate([stored.facts[NUMBER][old], pieces.number])
        last = np.concatenate([arrived.first[old_key] - 1, last])
        every = _Pieces(key, number, last, stacked([lines_at(stored.partials, old), new]))
        return every.at(np.lexsort((number, key)))

    def _new(self, rows: pl.DataFrame, ends: Mask) -> pl.DataFrame:
        if ends.all():
            return self._timed.row_partials(rows)
        piece = pl.Series(_PIECE, group_numbers(np.concatenate([[True], ends[:-1]])))
        return self._timed.partials(rows.hstack([piece]), (_PIECE,)).sort(_PIECE).drop(_PIECE)

    def _ends(self, arrived: RowsByKey, cut: RunAssignment) -> Mask:
        """Return the rows after which a piece ends: with its slice, or because it publishes."""
        ends = np.ones(arrived.key.size, np.bool_)
        ends[:-1] = (np.diff(arrived.key) != 0) | (np.diff(cut.number) != 0)
        if not self._by_rows:
            return ends
        if self._every_rows == 1 or self.windows.runs > 1:
            return np.ones(ends.size, np.bool_)
        begins = np.concatenate([[True], ends[:-1]])
        place = np.arange(ends.size)
        rows = place - place[begins][group_numbers(begins)] + 1
        heads = arrived.heads[arrived.key]
        rows += np.where(cut.number == heads[NUMBER], heads[ROWS], 0)
        ends |= rows % self._every_rows == 0
        return ends

    @property
    def _by_rows(self) -> bool:
        """Whether windows are published by rows that do not close them."""
        return isinstance(self.every, EveryRows | EveryEventTime)

    @property
    def _every_rows(self) -> int:
        """After how many rows a window may have to be published."""
        return self.every.rows if isinstance(self.every, EveryRows) else 1

    def _slices(self, pieces: _Pieces, running: _Pieces) -> _Pieces:
        """Merge the pieces of each slice; where windows are slices, that was done."""
        if self.windows.runs > 1:
            return self._merged(pieces)
        return running.at(np.flatnonzero(_ends(running)))

    def _merged(self, pieces: _Pieces) -> _Pieces:
        """Merge the pieces of each slice."""
        begins, ends = _begins(pieces), _ends(pieces)
        partials = merge_groups(self._timed, pieces.partials, group_numbers(begins))
        return _Pieces(pieces.key[begins], pieces.number[begins], pieces.last[ends], partials)

    def _kept(
        self,
        keys: pl.DataFrame,
        hashes: Hashes,
        slices: _Pieces,
        cut: RunAssignment,
        arrived: RowsByKey,
        closed: Numbers,
    ) -> Lines:
        """Return the slices of open windows, and an empty one where the last is complete."""
        kept = slices.at(np.flatnonzero(slices.number >= (closed * self.windows.step)[slices.key]))
        complete = complete_slices(arrived, cut)
        empty = np.flatnonzero(cut.completes[last_rows(arrived)])
        key = np.concatenate([kept.key, empty])
        number = np.concatenate([kept.number, complete[empty]])
        partials = kept.partials
        if empty.size:
            partials = stacked([partials, pl.DataFrame({ROWS: np.zeros(empty.size, np.int64)})])
        order = np.lexsort((number, key))
        key, partials = key[order], lines_at(partials, order)
        facts = cut.heads[key]
        facts[NUMBER] = number[order]
        facts[ROWS] = partials[ROWS].to_numpy()
        return Lines(lines_at(keys, key), hashes[key], facts, partials)

    def _complete(self, slices: _Pieces, before: Numbers, after: Numbers) -> _Due:
        """Return the windows that closed: each a stretch of slices."""
        count = after - before
        key = np.repeat(np.arange(count.size), count)
        window = ranges(before, count)
        lines = np.searchsorted(slices.key, np.arange(count.size))
        begin = lines[key] + window * self.windows.step - slices.number[lines[key]]
        partials = merged_ranges(self._timed, slices.partials, begin, self.windows.runs)
        row = slices.last[begin + self.windows.runs - 1] + self.windows.closed_by_next
        return _Due(key, window, row, np.ones(key.size, np.bool_), np.arange(key.size), partials)

    def _running(self, pieces: _Pieces, before: Numbers) -> _Pieces:
        """Return windows as of each piece of theirs, in order of key, window and arrival.

        ``number`` is the window's.  ``before``: of each key, how many were closed.
        """
        windows = self._in_windows(pieces, before) if self.windows.runs > 1 else pieces
        partials = prefixes(self._timed, windows.partials, group_numbers(_begins(windows)))
        return replace(windows, partials=partials)

    def _in_windows(self, pieces: _Pieces, before: Numbers) -> _Pieces:
        """Repeat each piece for the windows that it is in and that were not closed."""
        step = self.windows.step
        low = np.maximum(self.closed(pieces.number), before[pieces.key])
        count = np.maximum(pieces.number // step + 1 - low, 0)
        piece = np.repeat(np.arange(count.size), count)
        window = ranges(low, count)
        order = np.lexsort((piece, window, pieces.key[piece]))
        return replace(pieces.at(piece[order]), number=window[order])

    def _published(self, windows: _Pieces, arrived: RowsByKey, after: Numbers) -> _Due:
        """Return windows as of every row that publishes them, and those that closed."""
        key, window, last = windows.key, windows.number, windows.last
        closed = _ends(windows) & (window < after[key])
        early = self._fires(windows.partials, _begins(windows)) & (last >= arrived.first[key])
        if not self.windows.closed_by_next:
            early &= ~closed
        at = np.concatenate([np.flatnonzero(early), np.flatnonzero(closed)])
        done = np.arange(at.size) >= np.count_nonzero(early)
        row = last[at] + (done & self.windows.closed_by_next)
        return _Due(key[at], window[at], row, done, at, windows.partials)

    def _fires(self, windows: pl.DataFrame, begins: Mask) -> Mask:
        """Return which rows publish windows; those lie together, each as of all its rows."""
        if not isinstance(self.every, EveryEventTime):
            every_row: Mask = windows[ROWS].to_numpy() % self._every_rows == 0
            return every_row
        step = windows[f"{_LAST}.max"].to_numpy() // self.every.interval_ms
        later = np.zeros(step.size, np.bool_)
        later[1:] = step[1:] > step[:-1]
        return later & ~begins

    def _panes(self, keys: pl.DataFrame, due: _Due, order: Numbers) -> pl.DataFrame:
        place = np.lexsort((due.window, order[due.row]))
        partials = lines_at(due.partials, due.line[place])
        values = self._timed.values(partials)
        closed = due.closed[place]
        panes = pane_frame(
            lines_at(keys, due.key[place]).hstack([pl.Series(WINDOW, due.window[place])]),
            values[_FIRST],
            values[_LAST].to_numpy() + 1,
            partials[ROWS],
            timing_where(closed, ON_TIME, EARLY),
            closed,
        )
        return panes.hstack([values[name] for name in self.aggregation.types])


def _begins(pieces: _Pieces) -> Mask:
    """Say which pieces are the first of their slice or window."""
    begins = np.ones(pieces.key.size, np.bool_)
    begins[1:] = (np.diff(pieces.key) != 0) | (np.diff(pieces.number) != 0)
    return begins


def _ends(pieces: _Pieces) -> Mask:
    """Say which pieces are the last of their slice or window."""
    return np.append(_begins(pieces)[1:], True)
