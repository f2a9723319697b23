"""The operator of patterns: rows in order of event time, and timers as part of that order.

See docs/semantics.md, "Patterns".  A row waits until the clock is later than its event time.  Rows
that fulfil no condition are dropped before, unless a step follows with "next".  Then the automaton
takes the rows of each key that has partial matches, or that gets one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Frames, Numbers
from tidemark.core.operators.patterns.engines import Engines
from tidemark.core.operators.patterns.findings import MATCH, REFUSED, TIMEOUT, Findings
from tidemark.core.operators.patterns.in_time import (
    InTime,
    TimedFrame,
    TimedFrames,
    late_frame,
    refused_frame,
)
from tidemark.core.operators.patterns.pattern import Pattern
from tidemark.core.operators.patterns.results import MatchResults
from tidemark.core.operators.patterns.state import Matching, PatternState
from tidemark.core.operators.patterns.step_rows import StepRows
from tidemark.core.operators.patterns.step_values import StepValue
from tidemark.core.operators.ports import BY_TIME, LATE, ROWS, Port, late_port
from tidemark.core.operators.waiting_rows import JudgesByTime, WaitingRows
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.blocks import lines_at

TIMEOUTS = "timeouts"
"""Port of partial matches whose time is over."""

_KINDS = {ROWS: MATCH, TIMEOUTS: TIMEOUT, LATE: REFUSED}


@dataclass(frozen=True)
class PatternMatch(InTime):
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
        return MatchResults(self.key, self.pattern.names, self.values, self.columns)

    @cached_property
    def _engines(self) -> Engines:
        return Engines.of(self.pattern, self.max_partial, self.key, self.columns)

    def open(self, store: BlockStore = IN_MEMORY, /) -> PatternState:
        """Return empty state."""
        matching = Matching.empty(self.key, self.stored, self.pattern.within_ms, store)
        return PatternState(matching, WaitingRows(self.columns, store))

    def process(self, sides: Frames, state: PatternState) -> Frames:
        """Let the rows wait that may count; those that W has passed are late."""
        (rows,) = sides.values()
        if not self.pattern.counts_every_row and rows.height:
            may_count = self._engines.conditions.fits(rows)
            is_late = JudgesByTime().is_late(rows).to_numpy()
            rows = lines_at(rows, np.flatnonzero(may_count | is_late))
        late = state.waiting.take(rows)
        return {LATE: late_frame(late, BY_TIME)}

    def taken(
        self,
        state: PatternState,
        before_ms: int,  # noqa: ARG002 - the state knows
        stop_ms: int,
    ) -> TimedFrames:
        """Return the results that rows and timers before ``stop_ms`` decide, by port."""
        due = self.due_rows(state, stop_ms)
        if due.is_empty() and not state.matching.partial.is_due(stop_ms):
            return self._nothing
        rows, bits = self._engines.fitting(due)
        found = self._engines.findings_until(stop_ms, rows, bits, state.matching)
        by_port = {port.name: found.of_kind(_KINDS[port.name]) for port in self.outputs}
        return {
            port: TimedFrame(self._frame(port, some, state.matching.rows), some.at_ms)
            for port, some in by_port.items()
        }

    @cached_property
    def _nothing(self) -> TimedFrames:
        """The empty results of each port.  Rows that fit are rare, so most steps decide nothing."""
        nothing = np.empty(0, np.int64)
        shown = pl.DataFrame(schema=self._results.shown)
        frames = {port.name: shown for port in self.outputs} | {LATE: self._no_refused}
        return {port: TimedFrame(frame, nothing) for port, frame in frames.items()}

    def _frame(self, port: str, found: Findings, rows: StepRows) -> pl.DataFrame:
        if port != LATE:
            return self._results.frame(found, rows)
        return self._refused(found.first_refs, rows) if found.kind.size else self._no_refused

    @cached_property
    def _no_refused(self) -> pl.DataFrame:
        nothing = np.empty(0, np.int64)
        return self._refused(nothing, StepRows(self.stored, self.pattern.within_ms, IN_MEMORY))

    def _refused(self, first_refs: Numbers, rows: StepRows) -> pl.DataFrame:
        return refused_frame(first_refs, rows, too_many(self.max_partial))


def too_many(max_partial: int) -> str:
    """Return the reason of rows that too many partial matches push out."""
    return f"more than {max_partial} partial matches"
