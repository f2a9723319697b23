"""Rows joined to a broadcast table: each row meets the versions of all keys that count at its time.

See docs/semantics.md, "Broadcast tables".  Each log partition has a copy of the table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import polars as pl

from tidemark.core.operators.identity import Ids, ids_of_pairs, ids_of_rows
from tidemark.core.operators.joins.broadcast.bound import require_bound
from tidemark.core.operators.joins.broadcast.matcher import Met, SpanMatcher, equal_columns
from tidemark.core.operators.joins.broadcast.state import BroadcastState
from tidemark.core.operators.joins.judged_versions import judged_versions
from tidemark.core.operators.joins.results import Results, named
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.table_join import Wait
from tidemark.core.operators.joins.versions import Versions
from tidemark.core.operators.operator import (
    Body,
    Frames,
    Mask,
    Numbers,
    TimePortion,
    TooManyResultsError,
    missed,
)
from tidemark.core.operators.portions import joined
from tidemark.core.operators.ports import BY_TIME, LATE, LATE_BY, OWN, REASON, ROWS, Port, late_port
from tidemark.core.operators.rows import EVENT_TIME_MS
from tidemark.core.operators.waiting_rows import JudgesByTime, WaitingRows, passed_ms
from tidemark.core.rows.copies import own_rows
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at, lines_or_null
from tidemark.core.time.row_watermarks import ORDER, SEGMENT, with_segment
from tidemark.core.time.segment import EVENT_TIME, ROW_COLUMNS
from tidemark.core.windows.pane import END, START

LATE_LEFT, LATE_RIGHT = f"{LATE}-left", f"{LATE}-right"

_BATCH_PAIRS = 1 << 22
"""Pairs that a batch of segments may be expected to have; else segments go one by one."""

_EXPECTED = 256
"""Pairs to expect of a row at least, if the table has as many versions."""

_PORTION_ROWS = 1 << 17
"""Results of a portion, unless one row has more."""


@dataclass(frozen=True)
class BroadcastJoin(Body):
    """Joins rows of the left input with the versions of the right one, a broadcast table.

    Args:
        key: names of the key columns of the left input.
        table_key: those of the table.
        left: the side of the rows.
        right: the side of the table; results may show its key.
        how: not "right" or "full".
        keep_ms: how much older than a row a version may be that answers it.
        condition: of a pair, over the columns of results; None: rows pair with all versions.
        allowed_lateness_ms: how far behind W rows are accepted, and versions count.
        wait: "event_time" or "arrival", as for ``TableJoin``.
        deleted: over the columns of the table, whether a version is a tombstone.
        max_rows: the number of keys that the table may have.
        max_pairs: the number of pairs that a row may have; a row with more is late.
        operator: its name, for errors.
    """

    key: tuple[str, ...]
    table_key: tuple[str, ...]
    left: Side
    right: Side
    how: Kind
    keep_ms: int
    condition: pl.Expr | None = None
    allowed_lateness_ms: int = 0
    wait: Wait = "event_time"
    deleted: pl.Expr | None = None
    max_rows: int = 100_000
    max_pairs: int = 1_000_000
    operator: str = ""

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of results, and of late rows of each side."""
        return (
            self._results.port(self.allowed_lateness_ms),
            late_port(self.key, self.left.columns, LATE_LEFT),
            late_port(self.table_key, self.right.columns, LATE_RIGHT),
        )

    @cached_property
    def _results(self) -> Results:
        return Results(
            self.key, self.left, self.right, self.how, on_close=False, condition=self.condition
        )

    @cached_property
    def _matcher(self) -> SpanMatcher:
        return SpanMatcher(self._results, equal_columns(self._results))

    @property
    def can_batch(self) -> bool:
        """Whether rows wait for the clock; by arrival, rows see the versions of their segment."""
        return self.wait == "event_time"

    @property
    def can_portion(self) -> bool:
        """Whether rows are answered as they come."""
        return self.wait == "arrival"

    def open(self, store: BlockStore = IN_MEMORY, /) -> BroadcastState:
        """Return empty state."""
        lateness_ms = self.allowed_lateness_ms
        limited = self.max_pairs < self.max_rows  # a row that is refused is shown whole
        kept = self.left.columns if limited else (*self.key, *self.left.shown)
        left = {name: self.left.columns[name] for name in kept}
        right = {name: self.right.columns[name] for name in (*self.table_key, *self.right.shown)}
        return BroadcastState(
            Versions(self.table_key, right, self.keep_ms, lateness_ms, store),
            WaitingRows(left, store, lateness_ms),
        )

    def process(self, sides: Frames, state: BroadcastState) -> Frames:
        """Add versions; let rows wait, or answer them at once."""
        rows, table = sides[self.left.name], sides[self.right.name]
        if SEGMENT in rows.columns:
            self._require_few(rows.height, table.height, state)
        versions, old = judged_versions(table, self.keep_ms, self.allowed_lateness_ms, self.deleted)
        made: Frames = {LATE_RIGHT: own_rows(old)}
        if self.wait == "arrival":
            rows, late = JudgesByTime(self.allowed_lateness_ms).split(rows)
            for frames in self._in_log_order(rows, versions, state):
                made = joined(made, frames)
        else:
            late = state.waiting.take(rows.drop(ORDER))
            state.versions.add(versions.drop(ORDER))
        require_bound(state.versions, self.table_key, self.max_rows, self.operator)
        return joined({LATE_LEFT: self._reported(late, BY_TIME)}, made)

    def _require_few(self, rows: int, versions: int, state: BroadcastState) -> None:
        """Check that a batch is likely to have few pairs.

        ``rows``, ``versions``: the numbers of those in the batch.

        Raises:
            TooManyResultsError: its segments had better go one by one.
        """
        expected = min(len(state.versions) + versions, _EXPECTED)
        per_row = max(state.pairs_per_row, expected)
        if (len(state.waiting) + rows) * per_row > _BATCH_PAIRS:
            raise TooManyResultsError(1)

    def _in_log_order(
        self, rows: pl.DataFrame, versions: pl.DataFrame, state: BroadcastState
    ) -> Iterator[Frames]:
        """Answer rows by the versions before them in the log, and add the versions."""
        before = np.searchsorted(versions[ORDER].to_numpy(), rows[ORDER].to_numpy())
        stops, first = np.unique(before, return_index=True)
        ends = np.append(first, rows.height)[1:]
        versions = versions.drop(ORDER)
        added = 0
        for stop, begin, end in zip(stops, first, ends, strict=True):
            state.versions.add(versions[added:stop])
            added = int(stop)
            yield from self._answers(rows[int(begin) : int(end)], state)
        state.versions.add(versions[added:])

    def _reported(self, late: pl.DataFrame, reason: str) -> pl.DataFrame:
        """Return late rows with the reason, in the columns of all late rows."""
        own = [f"{OWN}{name}" for name in (START, END, LATE_BY)]  # columns of rows with these names
        names = [*ROW_COLUMNS, *self.left.columns, *own, START, END, LATE_BY, SEGMENT]
        found = [name for name in dict.fromkeys(names) if name in late.columns]
        return late.select(found).with_columns(pl.lit(reason).alias(REASON))

    def flush(self, state: BroadcastState, clock_ms: int) -> Frames:  # noqa: ARG002 - the contract
        """Return nothing: ``process`` publishes what rows make due."""
        return {}

    def advance(self, state: BroadcastState, before_ms: int, clock_ms: int) -> Frames:
        """Answer the rows that the clock has passed."""
        portions = self.advance_in_portions(state, before_ms, clock_ms)
        none: Frames = {}
        return reduce(joined, (portion.frames for portion in portions), none)

    def advance_each(
        self, state: BroadcastState, before_ms: int, clock_ms: Sequence[int]
    ) -> Frames:
        """Return the answers of ``advance`` for each segment: the first whose clock passes them."""
        frames = self.advance(state, before_ms, clock_ms[-1])
        times = {ROWS: EVENT_TIME_MS, LATE_LEFT: EVENT_TIME}
        wait_ms = self.allowed_lateness_ms
        return {
            port: with_segment(frame, frame[times[port]].to_numpy() + wait_ms, clock_ms)
            for port, frame in frames.items()
        }

    def advance_in_portions(
        self, state: BroadcastState, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield the answers of a stretch of time after those of the one before."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        if self.wait == "arrival":
            yield TimePortion({}, clock_ms)
            return
        reached_ms, end_ms = before_ms, passed_ms(clock_ms, self.allowed_lateness_ms)
        for stop_ms in state.waiting.stops(end_ms):
            due = state.waiting.release(stop_ms)
            frames: Frames = {}
            if due is not None:
                for each in self._answers(due, state):
                    if frames:  # the state has let all these rows go
                        yield TimePortion(frames, reached_ms, can_pause=False)
                    frames = each
            reached_ms = clock_ms if stop_ms >= end_ms else stop_ms + self.allowed_lateness_ms
            yield TimePortion(frames, reached_ms)

    def _answers(self, rows: pl.DataFrame, state: BroadcastState) -> Iterator[Frames]:
        """Yield the results of rows by the versions in the state, some rows at a time."""
        spans = state.versions.spans()
        frames: Frames = {}
        for met in self._matcher.met(rows, spans):
            made = self._answered(rows, spans, met)
            rate = made[ROWS].height // max(1, met.stop - met.first)
            state.pairs_per_row = max(state.pairs_per_row, rate)
            frames = joined(frames, made)
            if frames[ROWS].height >= _PORTION_ROWS:
                yield frames
                frames = {}
        if frames:
            yield frames

    def _answered(self, rows: pl.DataFrame, spans: pl.DataFrame, met: Met) -> Frames:
        """Return the results of some rows, and those of them with too many pairs."""
        part = rows[met.first : met.stop]
        row, span = met.row - met.first, met.span
        count = np.bincount(row, minlength=part.height)
        refused = count > self.max_pairs
        made = self._published(part, spans, row, span, count, refused)
        hot = part.filter(pl.Series(refused))
        if hot.is_empty():
            return {ROWS: made}
        end_ms = hot[EVENT_TIME].to_numpy() + 1
        late = missed(hot, end_ms - 1, end_ms, end_ms + self.allowed_lateness_ms)
        return {ROWS: made, LATE_LEFT: self._reported(late, f"more than {self.max_pairs} pairs")}

    def _published(
        self,
        rows: pl.DataFrame,
        spans: pl.DataFrame,
        row: Numbers,
        span: Numbers,
        count: Numbers,
        refused: Mask,
    ) -> pl.DataFrame:
        """Return the results of rows in order; of each, its pairs in the order of spans."""
        kept = ~refused[row]
        row, span = row[kept], span[kept]
        none, some = np.flatnonzero(count == 0), np.flatnonzero((count > 0) & ~refused)
        alone = {"left": none, "anti": none, "semi": some}.get(self.how, none[:0])
        if self.how in ("semi", "anti"):
            row, span = alone, np.full(alone.size, -1)
        elif alone.size:
            row, span = np.append(row, alone), np.append(span, np.full(alone.size, -1))
            order = np.argsort(row, kind="stable")
            row, span = row[order], span[order]
        own = lines_at(rows[[*self.key, *self.left.shown]], row)
        versions = lines_or_null(spans[[*self.right.shown]], span)
        values = [*own[[*self.key]], *named(own, self.left), *named(versions, self.right)]
        at_ms = rows[EVENT_TIME].to_numpy()[row]
        return self._results.frame(values, _ids(rows, spans, row, span), at_ms)

    def pending(self, state: BroadcastState) -> bool:
        """Whether rows wait for the clock."""
        return len(state.waiting) > 0


def _ids(rows: pl.DataFrame, spans: pl.DataFrame, row: Numbers, span: Numbers) -> Ids:
    """Return the identities of results, from the places of the row and of the version, if any."""
    right = Ids(np.zeros(span.size, np.uint64), np.zeros(span.size, np.uint64))
    paired = np.flatnonzero(span >= 0)
    if paired.size:
        of_versions = ids_of_rows(spans).at(span[paired])
        right.high[paired], right.low[paired] = of_versions
    return ids_of_pairs(ids_of_rows(rows).at(row), right)
