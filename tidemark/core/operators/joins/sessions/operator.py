"""The join of two streams in sessions: rows of one key that are in the same session.

See docs/semantics.md, "Session joins".  The rows of both sides make the sessions of a key, by the
strict rule of core/operators/sessions, which holds them: a session collects its rows.  Once it is
final, it leaves the state, and its rows pair.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.aggregates.constructors import collect
from tidemark.core.operators.identity import ids_of_pairs
from tidemark.core.operators.joins.new_rows import columns_of
from tidemark.core.operators.joins.pairs import ranges_of_rows
from tidemark.core.operators.joins.results import END_MS
from tidemark.core.operators.joins.sessions.results import Members, SessionResults, counts_before
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.stream_join import LATE_LEFT, LATE_RIGHT
from tidemark.core.operators.operator import Body, Frames, TimePortion, missed
from tidemark.core.operators.portions import joined
from tidemark.core.operators.ports import BY_TIME, REASON, ROWS, Port, late_port
from tidemark.core.operators.sessions.operator import SessionAggregate
from tidemark.core.operators.sessions.state import SessionState
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import order_by
from tidemark.core.state.keyed_lines import Lines, Numbers, ranges
from tidemark.core.time.row_watermarks import SEGMENT
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, ROW_COLUMNS, WATERMARK
from tidemark.core.windows.pane import END, START
from tidemark.core.windows.trigger import OnFinal
from tidemark.core.windows.window import Session

_LATE_PORTS = (LATE_LEFT, LATE_RIGHT)
_LEFT, _RIGHT = "left", "right"
"""Columns of rows of sessions: the row of that side as a struct, else null."""

_MOST_PAIRS = 1 << 20
"""Pairs that are made at once, unless one row has more."""


@dataclass(frozen=True)
class SessionJoin(Body):
    """The join of two inputs on a key and a session; results are final and only appended.

    Args:
        key, left, right, how, condition, max_pairs, self_join: as of ``StreamJoin``.
        windows: the sessions, with one gap for all rows.
        allowed_lateness_ms: how far behind its source's watermark a row is accepted.
    """

    key: tuple[str, ...]
    left: Side
    right: Side
    how: Kind
    windows: Session
    allowed_lateness_ms: int = 0
    condition: pl.Expr | None = None
    max_pairs: int = 1_000_000
    self_join: bool = True

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of results and of late rows of each side."""
        rows = self._results.port(self.allowed_lateness_ms)
        late = (
            late_port(self.key, side.columns, name)
            for side, name in zip(self._sides, _LATE_PORTS, strict=True)
        )
        return rows, *late

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.left, self.right

    @cached_property
    def _results(self) -> SessionResults:
        return SessionResults(self.key, self.left, self.right, self.how, False, self.condition)

    @cached_property
    def _sessions(self) -> SessionAggregate:
        """The sessions, which collect the rows of each side."""
        wholes = {name: pl.Struct(_held(side)) for name, side in self._named_sides.items()}
        key = {name: self.left.columns[name] for name in self.key}
        columns = {**key, **wholes}
        rows = Aggregation({name: collect(name) for name in wholes}, columns)
        return SessionAggregate(
            self.windows, rows, self.key, columns, self.allowed_lateness_ms, OnFinal()
        )

    @property
    def _named_sides(self) -> Mapping[str, Side]:
        return dict(zip((_LEFT, _RIGHT), self._sides, strict=True))

    def open(self, store: BlockStore = IN_MEMORY, /) -> SessionState:
        """Return empty state."""
        return self._sessions.open(store)

    # Rows

    @property
    def can_batch(self) -> bool:
        """True: results are final, so no row corrects them."""
        return True

    @property
    def can_portion(self) -> bool:
        """True: rows only add to sessions."""
        return True

    def flush(self, state: SessionState, clock_ms: int) -> Frames:  # noqa: ARG002 - the contract
        """Return nothing: time alone makes sessions due."""
        return {}

    def process(self, sides: Frames, state: SessionState) -> Frames:
        """Add rows to sessions; return the late ones."""
        accepted, made = [], {}
        for (name, side), port in zip(self._named_sides.items(), _LATE_PORTS, strict=True):
            rows = sides[side.name]
            late = pl.Series(self._sessions.too_late(rows))
            accepted.append(self._as_members(rows.filter(~late), name))
            made[port] = self._late(rows.filter(late), side)
        self._sessions.fold(pl.concat(accepted), state)
        return made

    def _as_members(self, rows: pl.DataFrame, name: str) -> pl.DataFrame:
        """Return rows as the sessions take them: each whole, in the column of its side."""
        held = rows.select(list(_held(self._named_sides[name]))).to_struct(name)
        nothing = {
            other: pl.Series(other, [], self._sessions.columns[other]).clear(rows.height)
            for other in self._named_sides
        }
        plain = columns_of(rows, (*ROW_COLUMNS, *self.key))
        return plain.hstack([*{**nothing, name: held}.values()])

    def _late(self, rows: pl.DataFrame, side: Side) -> pl.DataFrame:
        """Return late rows: by how much, and the session that each alone would have made."""
        at_ms = rows[EVENT_TIME].to_numpy()
        late = _reported(rows, side, BY_TIME)
        late = missed(late, at_ms, at_ms + self.windows.gap_ms, at_ms + self.allowed_lateness_ms)
        return late.hstack([rows[SEGMENT]]) if SEGMENT in rows.columns else late

    # Time

    def advance(self, state: SessionState, before_ms: int, clock_ms: int) -> Frames:
        """Return the results of the sessions that are final."""
        portions = self.advance_in_portions(state, before_ms, clock_ms)
        return reduce(joined, [portion.frames for portion in portions])

    def advance_each(self, state: SessionState, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Return the rows of ``advance`` for each segment: the first that makes them due."""
        frames = self.advance(state, before_ms, clock_ms[-1])
        found = {}
        for port, frame in frames.items():
            end_ms = frame[END_MS if port == ROWS else END].to_numpy()
            segment = np.searchsorted(np.array(clock_ms), end_ms + self.allowed_lateness_ms)
            numbered = frame.hstack([pl.Series(SEGMENT, segment, pl.Int64)])
            # Pairs of all sessions come first, also before rows alone of an earlier segment.
            found[port] = numbered.sort(SEGMENT, maintain_order=True)
        return found

    def advance_in_portions(
        self, state: SessionState, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield the pairs of final sessions, a limited number at once, then the other results."""
        final_ms = max(NEVER_MS, clock_ms - self.allowed_lateness_ms)
        due = state.publish(final_ms, clock_ms, before_ms)
        if due is None:
            nothing = pl.DataFrame(schema=self._results.columns)
            yield TimePortion({ROWS: nothing}, clock_ms)
            return
        due = due.at(_order_of(due))
        (left, right), late = self._with_few_pairs(due)
        matched = np.zeros(left.session.size, np.bool_), np.zeros(right.session.size, np.bool_)
        for left_row, right_row in self._candidates(due, left, right):
            one, other = left.at(left_row), right.at(right_row)
            values, holds = self._results.pairs(one, other)
            if self.self_join:
                holds &= (one.ids.high != other.ids.high) | (one.ids.low != other.ids.low)
            matched[0][left_row[holds]] = matched[1][right_row[holds]] = True
            if self.how not in ("semi", "anti"):
                ids = ids_of_pairs(one.ids.at(holds), other.ids.at(holds))
                values = values.filter(pl.Series(holds))
                made = self._results.of_pairs_in(due, values, ids, one.session[holds])
                yield TimePortion({ROWS: made}, before_ms, can_pause=False)
        alone = self._results.alone_in(due, (left, right), matched)
        yield TimePortion({ROWS: alone, **late}, clock_ms)

    def _candidates(
        self, due: Lines, left: Members, right: Members
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the pairs of rows of one session, as numbers of left and of right rows."""
        sessions = np.arange(due.facts.size)
        first = np.searchsorted(right.session, sessions)
        count = np.searchsorted(right.session, sessions, "right") - first
        for column in due.keys:
            count[column.is_null().to_numpy()] = 0  # null equals nothing
        partners = count[left.session]
        for begin, stop in ranges_of_rows(np.cumsum(partners), _MOST_PAIRS):
            some, own = np.arange(begin, stop), partners[begin:stop]
            yield np.repeat(some, own), ranges(first[left.session[some]], own)

    def _with_few_pairs(self, due: Lines) -> tuple[tuple[Members, Members], Frames]:
        """Return the rows with few rows of the other side before them; the others are late."""
        sides = [Members.of(due, name) for name in self._named_sides]
        counts = counts_before(*sides, self_join=self.self_join)
        kept, late = [], {}
        for each, count, side, port in zip(sides, counts, self._sides, _LATE_PORTS, strict=True):
            kept.append(each.at(np.flatnonzero(count <= self.max_pairs)))
            gone = each.at(np.flatnonzero(count > self.max_pairs))
            start_ms, end_ms = due.facts[START][gone.session], due.facts[END][gone.session]
            rows = _reported(gone.rows, side, f"more than {self.max_pairs} pairs")
            late[port] = missed(rows, start_ms, end_ms, end_ms + self.allowed_lateness_ms)
        left, right = kept
        return (left, right), late


def _held(side: Side) -> dict[str, pl.DataType]:
    """Return the columns of rows that sessions hold besides those that order rows."""
    return {WATERMARK: pl.Int64(), **side.columns}


def _reported(rows: pl.DataFrame, side: Side, reason: str) -> pl.DataFrame:
    """Return rows with the reason why they have no results."""
    named_rows = columns_of(rows, (*ROW_COLUMNS, *side.columns))
    return named_rows.hstack([pl.Series(REASON, [reason]).new_from_index(0, rows.height)])


def _order_of(due: Lines) -> Numbers:
    """Return the order of sessions: by end, key and start."""
    return order_by((pl.Series(due.facts[END]), *due.keys, pl.Series(due.facts[START])))
