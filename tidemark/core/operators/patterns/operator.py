"""The operator of patterns: rows in order of event time, and timers as part of that order.

See docs/semantics.md, "Patterns".  A row waits until the clock is later than its event time.  Rows
that fulfil no condition are dropped before, unless a step follows with "next".  Then the automaton
takes the rows of each key that has partial matches, or that gets one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Body, Frames, Numbers, TimePortion, missed
from tidemark.core.operators.patterns.automaton import Automaton
from tidemark.core.operators.patterns.conditions import Conditions
from tidemark.core.operators.patterns.engines import Engines
from tidemark.core.operators.patterns.findings import MATCH, REFUSED, TIMEOUT, Findings
from tidemark.core.operators.patterns.one_row import OneRowPattern
from tidemark.core.operators.patterns.partial import STEP_BITS
from tidemark.core.operators.patterns.pattern import Pattern
from tidemark.core.operators.patterns.results import MatchResults
from tidemark.core.operators.patterns.state import Matching, PartialMatches, PatternState
from tidemark.core.operators.patterns.step_rows import StepRows
from tidemark.core.operators.patterns.step_values import StepValue
from tidemark.core.operators.ports import LATE, OWN, REASON, ROWS, Port, late_port
from tidemark.core.operators.waiting_rows import JudgesByTime, WaitingRows
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at
from tidemark.core.time.row_watermarks import SEGMENT, with_segment
from tidemark.core.time.segment import EVENT_TIME, ROW_COLUMNS, SOURCE

TIMEOUTS = "timeouts"
"""Port of partial matches whose time is over."""

_KINDS = {ROWS: MATCH, TIMEOUTS: TIMEOUT, LATE: REFUSED}


@dataclass(frozen=True)
class PatternMatch(Body):
    """Matches of a pattern in the rows of each key.

    Args:
        pattern: the steps.
        key: names of the key columns.
        columns: of the stream, with types.
        values: what a result shows of its rows, by name.
        max_partial: the number of partial matches of a key, above which the oldest rows go to the
            late topic.
        with_timeouts: whether partial matches whose time is over are results, too.
    """

    pattern: Pattern
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    values: Mapping[str, StepValue]
    max_partial: int = 1000
    with_timeouts: bool = False

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of matches, of timeouts if they are asked for, and of late rows."""
        names = (ROWS, TIMEOUTS) if self.with_timeouts else (ROWS,)
        ports = (self._results.port(name) for name in names)
        return *ports, late_port(self.key, self.columns)

    @cached_property
    def _results(self) -> MatchResults:
        steps = tuple(step.name for step in self.pattern.steps)
        return MatchResults(self.key, steps, self.values, self.columns)

    @cached_property
    def _conditions(self) -> Conditions:
        return Conditions(self.pattern, self.columns)

    @cached_property
    def _engines(self) -> Engines:
        automaton = Automaton(self.pattern, self.max_partial)
        return Engines(automaton, self._conditions, self.key, OneRowPattern.of(automaton))

    @cached_property
    def _stored(self) -> dict[str, pl.DataType]:
        """The columns of stored rows: a row that is refused is published whole."""
        return {**ROW_COLUMNS, SOURCE: pl.String(), **self.columns}

    @property
    def can_batch(self) -> bool:
        """True: the time of a result alone decides after which segment it is due."""
        return True

    def open(self, store: BlockStore = IN_MEMORY, /) -> PatternState:
        """Return empty state."""
        within_ms = self.pattern.within_ms
        partial = PartialMatches(self.key, within_ms, store)
        matching = Matching(partial, StepRows(self._stored, within_ms, store))
        return PatternState(matching, WaitingRows(self.columns, store))

    def process(self, sides: Frames, state: PatternState) -> Frames:
        """Let the rows wait that may count; those that W has passed are late."""
        (rows,) = sides.values()
        if not self.pattern.counts_every_row and rows.height:
            may_count = self._conditions.fits(rows)
            is_late = JudgesByTime().is_late(rows).to_numpy()
            rows = lines_at(rows, np.flatnonzero(may_count | is_late))
        late = state.waiting.take(rows)
        return {LATE: self._late(late, "late")}

    @staticmethod
    def _late(late: pl.DataFrame, reason: str) -> pl.DataFrame:
        """Return late rows with the columns that all of them have."""
        own = [name for name in late.columns if not name.startswith("@") or name.startswith(OWN)]
        segment = [SEGMENT] if SEGMENT in late.columns else []
        return late.select(*ROW_COLUMNS, *own, pl.lit(reason).alias(REASON), *segment)

    def advance(self, state: PatternState, before_ms: int, clock_ms: int) -> Frames:
        """Return what the rows and timers that the clock has passed decide."""
        return _frames(self._advanced(state, before_ms, clock_ms))

    def advance_each(self, state: PatternState, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Return the results of ``advance`` for each segment: the first whose clock passes them."""
        found = self._advanced(state, before_ms, clock_ms[-1])
        return {port: with_segment(*each, clock_ms) for port, each in found.items()}

    def _advanced(self, state: PatternState, before_ms: int, clock_ms: int) -> "_Results":
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        parts = [self._taken(state, stop_ms) for stop_ms in state.waiting.stops(clock_ms)]
        if len(parts) == 1:
            return parts[0]
        return {port: _PortResults.joined([part[port] for part in parts]) for port in parts[0]}

    def advance_in_portions(
        self, state: PatternState, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield the results of a stretch of time after those of the one before."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        for stop_ms in state.waiting.stops(clock_ms):
            yield TimePortion(_frames(self._taken(state, stop_ms)), stop_ms)

    def pending(self, state: PatternState) -> bool:
        """Whether rows wait, or partial matches whose time ends."""
        return state.open_windows() > 0

    def _taken(self, state: PatternState, stop_ms: int) -> "_Results":
        """Return the results that rows and timers before ``stop_ms`` decide, by port."""
        due = state.waiting.release(stop_ms)
        rows = pl.DataFrame(schema=self._stored) if due is None else due[list(self._stored)]
        found = self._engines.findings_until(stop_ms, rows, state.matching)
        by_port = {port.name: found.of_kind(_KINDS[port.name]) for port in self.outputs}
        return {
            port: _PortResults(self._frame(port, some, state.matching.rows), some.at_ms)
            for port, some in by_port.items()
        }

    def _frame(self, port: str, found: Findings, rows: StepRows) -> pl.DataFrame:
        if port != LATE:
            return self._results.frame(found, rows)
        own = rows.rows(found.first_refs >> STEP_BITS)
        at_ms = own[EVENT_TIME].to_numpy()
        reason = f"more than {self.max_partial} partial matches"
        return self._late(missed(own, at_ms, at_ms + 1, at_ms + 1), reason)


class _PortResults(NamedTuple):
    """Results of a port, and the time of the row or timer that decides each."""

    frame: pl.DataFrame
    at_ms: Numbers

    @classmethod
    def joined(cls, parts: Sequence["_PortResults"]) -> "_PortResults":
        """Return the results of all parts, in order."""
        frames, at_ms = zip(*parts, strict=True)
        return cls(pl.concat(frames, how="vertical_relaxed"), np.concatenate(at_ms))


_Results = Mapping[str, _PortResults]
"""Results by port."""


def _frames(results: _Results) -> Frames:
    return {port: each.frame for port, each in results.items()}
