"""The join of two streams: rows of one key whose event times are close, or in the same window.

See docs/semantics.md, "Joins" and "Window joins".  A row waits in state as long as a partner can
come.  A pair is published in the segment of its later row.  A row without a partner is published
when it is due.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.operators.identity import ids_in_windows, ids_of_rows
from tidemark.core.operators.joins.new_rows import REACH, NewRows, RowFacts, SideSpec, columns_of
from tidemark.core.operators.joins.pairs import Arrived, Matcher, Taken
from tidemark.core.operators.joins.results import Results
from tidemark.core.operators.joins.side import Kind, Side
from tidemark.core.operators.joins.side_rows import SideRows
from tidemark.core.operators.joins.standing import Standing, standing_of
from tidemark.core.operators.joins.state import JoinState
from tidemark.core.operators.operator import Body, Frames, TimePortion, missed
from tidemark.core.operators.ports import (
    BY_TIME,
    DEAD,
    REASON,
    ROWS,
    Port,
    dead_port,
    late_port,
)
from tidemark.core.operators.rows import EVENT_TIME_MS
from tidemark.core.rows.row_values import row_values
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Mask, Numbers
from tidemark.core.time.row_watermarks import ORDER, SEGMENT, with_segment
from tidemark.core.windows.window import AlignedWindows

LATE_LEFT, LATE_RIGHT = "late-left", "late-right"

_PORTION_ROWS = 32_768
"""Rows without a partner that are published at once."""

_NONE = np.empty(0, np.int64)
_NO_REASON = pl.Series(REASON, [], pl.String)


@dataclass(frozen=True)
class StreamJoin(Body):
    """The join of two inputs on a key and an interval of event time.

    Args:
        key: names of the key columns, the same with the same types on both sides.
        left, right: the sides.
        how: which rows give results.
        lower_ms: a pair has right time >= left time + ``lower_ms`` ...
        upper_ms: ... and right time <= left time + ``upper_ms``.
        allowed_lateness_ms: how far behind its source's watermark a row is accepted.
        on_close: whether a row without a partner is published once time makes it due, and
            withdrawn if a late partner comes; else it waits for late partners.
        condition: over the key and the names of results; a pair counts only if it is true.
        upper: the upper bound of each left row, in ms, over the columns of the left side; a larger
            one than ``upper_ms`` counts as ``upper_ms``.
        max_pairs: the number of earlier partners above which a row is refused as late.
        self_join: whether rows of the same raw row are one row, which never pairs with itself.
        operator: the name of the operator, for dead letters.
        windows: of a window join.  Its rows stand at the last times of their windows (standing.py),
            and its bounds are 0.
    """

    key: tuple[str, ...]
    left: Side
    right: Side
    how: Kind
    lower_ms: int
    upper_ms: int
    allowed_lateness_ms: int = 0
    on_close: bool = False
    condition: pl.Expr | None = None
    upper: pl.Expr | None = None
    max_pairs: int = 1_000_000
    self_join: bool = True
    operator: str = "join"
    windows: AlignedWindows | None = None

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of results, of late rows of each side, and of refused rows."""
        rows = self._results.port(self.allowed_lateness_ms)
        late = (
            late_port(self.key, self.left.columns, LATE_LEFT),
            late_port(self.key, self.right.columns, LATE_RIGHT),
        )
        if self.upper is None:
            return rows, *late
        return rows, *late, dead_port(self.key, self.left.columns, self.operator)

    @cached_property
    def _results(self) -> Results:
        return Results(
            self.key, self.left, self.right, self.how, self.on_close, self.condition, self.windows
        )

    @cached_property
    def _standing(self) -> Standing:
        return standing_of(self.windows, self.allowed_lateness_ms)

    @property
    def _corrects(self) -> bool:
        """Whether a late row may withdraw a result."""
        return self.on_close and self.allowed_lateness_ms > 0 and self.how not in ("inner", "semi")

    @property
    def _wait_ms(self) -> int:
        """How long after the time of a row without a partner it is due."""
        return 0 if self._corrects else self.allowed_lateness_ms

    # State

    def open(self, store: BlockStore = IN_MEMORY, /) -> JoinState:
        """Return empty state."""
        left_waits = self.how in ("left", "full", "anti")
        upper_ms = None if self.upper is not None else self.upper_ms
        left = self._spec(
            "left", self.left, upper_ms, tracks=left_waits or self.how == "semi", waits=left_waits
        )
        right_waits = self.how in ("right", "full")
        right = self._spec(
            "right", self.right, -self.lower_ms, tracks=right_waits, waits=right_waits
        )
        return JoinState(SideRows(left, store), SideRows(right, store))

    def _spec(
        self, name: str, side: Side, reach_ms: int | None, *, tracks: bool, waits: bool
    ) -> SideSpec:
        columns = {column: side.columns[column] for column in (*self.key, *side.shown)}
        return SideSpec(
            name,
            self.key,
            columns,
            reach_ms,
            self.allowed_lateness_ms,
            tracks=tracks,
            wait_ms=self._wait_ms if waits else None,
            keeps_published=waits and self._corrects,
        )

    # Rows

    @property
    def can_batch(self) -> bool:
        """True: only late rows may correct results (``needs_own_step``)."""
        return True

    @property
    def can_portion(self) -> bool:
        """True: rows pair with all rows before them, in the state or in the same portion."""
        return True

    def needs_own_step(self, sides: Frames) -> Mapping[str, Mask]:
        """Mark, by side, the rows that W has passed somewhere, if results may be withdrawn."""
        return {
            name: self._standing.passed(frame)
            if self._corrects
            else np.zeros(frame.height, np.bool_)
            for name, frame in sides.items()
        }

    def process(self, sides: Frames, state: JoinState) -> Frames:
        """Publish the pairs of new rows, and withdraw results that have a partner now."""
        left, right, matcher, found, others = self._take(sides, state)
        found.require_few(left, right, sides)
        pairs = matcher.pairs(found, left, right)
        state.left.put(left.new)
        state.right.put(right.new)
        batched = SEGMENT in sides[self.left.name].columns
        return {ROWS: self._results.of_pairs(pairs, state, batched=batched), **others}

    def _take(self, sides: Frames, state: JoinState) -> Taken:
        """Return the rows that are accepted; ``state`` has only those before them."""
        lefts, late_left = self._in_time(sides[self.left.name])
        rights, late_right = self._in_time(sides[self.right.name])
        made: dict[str, pl.DataFrame] = {}
        if self.upper is not None:
            lefts, made[DEAD] = self._with_upper(lefts, self.upper)
        left, right = self._arrived(lefts, rights)
        matcher = Matcher(
            *state.sides,
            self.lower_ms,
            self.upper_ms,
            own_reach=self.upper is not None,
            self_join=self.self_join,
        )
        found = matcher.find(left, right)
        refused = lefts[:0], rights[:0]
        if found.most > self.max_pairs:
            (lefts, rights), refused = self._with_few_pairs(sides, lefts, rights, matcher)
            left, right = self._arrived(lefts, rights)
            found = matcher.find(left, right)
        made[LATE_LEFT] = self._late(late_left, refused[0])
        made[LATE_RIGHT] = self._late(late_right, refused[1])
        return Taken(left, right, matcher, found, made)

    def _in_time(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows that are accepted by their time, and the late ones."""
        return _split(rows, self._standing.accepted(rows))

    def _with_few_pairs(
        self, sides: Frames, lefts: pl.DataFrame, rights: pl.DataFrame, matcher: Matcher
    ) -> tuple[tuple[pl.DataFrame, pl.DataFrame], tuple[pl.DataFrame, pl.DataFrame]]:
        """Return the accepted rows of each side, and those with too many pairs."""
        left_few, right_few = matcher.not_hot(*self._arrived(lefts, rights), self.max_pairs)
        lefts, hot_left = _split(lefts, left_few)
        rights, hot_right = _split(rights, right_few)
        left, right = self._arrived(lefts, rights)
        found = matcher.find(left, right)
        found.require_few(left, right, sides)
        left_few, right_few = matcher.accepted(found, left, right, self.max_pairs)
        lefts, more_left = _split(lefts, left_few)
        rights, more_right = _split(rights, right_few)
        refused = pl.concat([hot_left, more_left]), pl.concat([hot_right, more_right])
        return (lefts, rights), refused

    def _late(self, late: pl.DataFrame, refused: pl.DataFrame) -> pl.DataFrame:
        """Return late rows, and rows with too many partners, in log order, with the reason."""
        if not late.height and not refused.height:
            return missed(late.hstack([_NO_REASON]), _NONE, _NONE, _NONE)
        reason = f"more than {self.max_pairs} pairs"
        both = late.hstack([pl.Series(REASON, [BY_TIME]).new_from_index(0, late.height)])
        if refused.height:
            own = refused.select(late.columns).with_columns(pl.lit(reason).alias(REASON))
            both = pl.concat([both, own]).sort(ORDER)
        start_ms, end_ms = self._standing.bounds(both)
        return missed(both, start_ms, end_ms, end_ms + self.allowed_lateness_ms)

    def _with_upper(self, rows: pl.DataFrame, upper: pl.Expr) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows with their upper bounds in REACH, and those without one as dead."""
        reach, faults = row_values(upper, rows, pl.Int64())
        failed = pl.Series([None], dtype=pl.String).new_from_index(0, rows.height)
        if faults:
            texts = [f"the upper bound of the join fails: {text}" for text in faults.values()]
            failed = failed.scatter([*faults], pl.Series(texts))
        rows = rows.with_columns(reach.clip(upper_bound=self.upper_ms).alias(REACH))
        reason = (
            pl.when(failed.is_not_null())
            .then(failed)
            .when(pl.col(REACH).is_null())
            .then(pl.lit("the upper bound of the join is null"))
            .when(pl.col(REACH) < self.lower_ms)
            .then(pl.lit(f"the upper bound of the join is below the lower one, {self.lower_ms} ms"))
            .alias(REASON)
        )
        named = rows.with_columns(reason)
        good = named.filter(pl.col(REASON).is_null()).drop(REASON)
        return good, named.filter(pl.col(REASON).is_not_null()).drop(REACH)

    def _arrived(self, lefts: pl.DataFrame, rights: pl.DataFrame) -> tuple[Arrived, Arrived]:
        return (
            self._arrived_of(lefts, self.left, self.upper_ms),
            self._arrived_of(rights, self.right, -self.lower_ms),
        )

    def _arrived_of(self, rows: pl.DataFrame, side: Side, reach_ms: int) -> Arrived:
        at_ms, taken, start_ms = self._standing.places(rows)
        ids = ids_of_rows(rows)
        order = rows[ORDER].to_numpy()
        segment = (
            rows[SEGMENT].to_numpy() if SEGMENT in rows.columns else np.zeros(rows.height, int)
        )
        shown = columns_of(rows, (*self.key, *side.shown))
        if start_ms is not None:
            ids = ids_in_windows(ids.at(taken), start_ms)
            order, segment, shown = order[taken], segment[taken], lines_at(shown, taken)
        own_reach = REACH in rows.columns
        facts = RowFacts.of(at_ms, ids, rows[REACH].to_numpy() if own_reach else reach_ms)
        return Arrived(NewRows.of(shown, facts, self.key), order, segment, taken)

    # Time

    def flush(self, state: JoinState, clock_ms: int) -> Frames:  # noqa: ARG002 - the contract
        """Return nothing: ``process`` publishes what rows make due."""
        return {}

    def advance(self, state: JoinState, before_ms: int, clock_ms: int) -> Frames:
        """Return the rows without a partner that are due."""
        portions = self.advance_in_portions(state, before_ms, clock_ms)
        return {ROWS: pl.concat([portion.frames[ROWS] for portion in portions])}

    def advance_each(self, state: JoinState, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Return the rows of ``advance`` for each segment: the first whose clock they are due."""
        rows = self.advance(state, before_ms, clock_ms[-1])[ROWS]
        if rows.is_empty():
            return {}
        waits_until_ms = rows[EVENT_TIME_MS].to_numpy() + self._wait_ms
        return {ROWS: with_segment(rows, waits_until_ms, clock_ms)}

    def advance_in_portions(
        self, state: JoinState, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield rows without a partner in order of time and identity, those of a time together."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        places = [side.pop_due(before_ms, clock_ms) for side in state.sides]
        due_ms = [side.due_ms(some) for side, some in zip(state.sides, places, strict=True)]
        stops = np.sort(np.concatenate(due_ms))[_PORTION_ROWS::_PORTION_ROWS]
        stops = np.unique(stops[stops > before_ms])
        for stop_ms in (*stops[stops < clock_ms], clock_ms):
            some = [each[at_ms <= stop_ms] for each, at_ms in zip(places, due_ms, strict=True)]
            places = [each[at_ms > stop_ms] for each, at_ms in zip(places, due_ms, strict=True)]
            due_ms = [at_ms[at_ms > stop_ms] for at_ms in due_ms]
            is_due = any(each.size for each in some)
            rows = self._due(some, state) if is_due else self._results.nothing
            yield TimePortion({ROWS: rows}, int(stop_ms))

    def _due(self, places: Sequence[Numbers], state: JoinState) -> pl.DataFrame:
        """Return the results of rows, by side, that are due."""
        for side, some in zip(state.sides, places, strict=True):
            side.publish(some)
        return self._results.without_partner(places, state)

    def pending(self, state: JoinState) -> bool:
        """Whether a row without a partner is not published yet."""
        return any(side.is_pending() for side in state.sides)


def _split(rows: pl.DataFrame, kept: Mask) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows that a mask marks, and the others."""
    if kept.all():
        return rows, rows[:0]
    return rows.filter(pl.Series(kept)), rows.filter(pl.Series(~kept))
