"""Results that rows in order of event time decide, and timers between them.

An operator of patterns takes the rows that the clock has passed, a stretch of time after the other.
Each result has the time of the row or timer that decides it.  So the same results come from a
segment, from its portions, and from a batch of segments.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tidemark.core.columns import repeated_text
from tidemark.core.operators.operator import Body, Frames, Numbers, TimePortion, missed
from tidemark.core.operators.patterns.partial import STEP_BITS
from tidemark.core.operators.patterns.step_rows import StepRows
from tidemark.core.operators.ports import OWN, REASON
from tidemark.core.time.row_watermarks import SEGMENT, with_segment
from tidemark.core.time.segment import EVENT_TIME, ROW_COLUMNS, SOURCE


class TimedFrame(NamedTuple):
    """Results of a port, and the time of the row or timer that decides each."""

    frame: pl.DataFrame
    at_ms: Numbers

    @classmethod
    def joined(cls, parts: Sequence["TimedFrame"]) -> "TimedFrame":
        """Return the results of all parts, one after the other."""
        frames, at_ms = zip(*parts, strict=True)
        return cls(pl.concat(frames, how="vertical_relaxed"), np.concatenate(at_ms))


TimedFrames = Mapping[str, TimedFrame]
"""Results by port."""


class InTime(Body):
    """A body that lets rows wait, and decides results in order of event time.

    ``columns``: of the rows, with types.
    """

    columns: Mapping[str, pl.DataType]

    @abstractmethod
    def taken(self, state: Any, before_ms: int, stop_ms: int) -> TimedFrames:
        """Return the results that rows and timers before ``stop_ms`` decide, by port.

        Those before ``before_ms`` were taken already.
        """

    @cached_property
    def stored(self) -> dict[str, pl.DataType]:
        """The columns of stored rows: a row that is refused is published whole."""
        return {**ROW_COLUMNS, SOURCE: pl.String(), **self.columns}

    def due_rows(self, state: Any, stop_ms: int) -> pl.DataFrame:
        """Take the rows before ``stop_ms`` out of those that wait, in order."""
        due = state.waiting.release(stop_ms)
        return self._no_rows if due is None else due[list(self.stored)]

    @cached_property
    def _no_rows(self) -> pl.DataFrame:
        """No stored rows.  A frame of a schema costs more than the rest of a step without rows."""
        return pl.DataFrame(schema=self.stored)

    @property
    def can_batch(self) -> bool:
        """True: the time of a result alone decides after which segment it is due."""
        return True

    def advance(self, state: Any, before_ms: int, clock_ms: int) -> Frames:
        """Return what the rows and timers that the clock has passed decide."""
        return _frames(self._advanced(state, before_ms, clock_ms))

    def advance_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Return the results of ``advance`` for each segment: the first whose clock passes them."""
        found = self._advanced(state, before_ms, clock_ms[-1])
        return {port: with_segment(*each, clock_ms) for port, each in found.items()}

    def _advanced(self, state: Any, before_ms: int, clock_ms: int) -> TimedFrames:
        parts = [found for _, found in self._stretches(state, before_ms, clock_ms)]
        if len(parts) == 1:
            return parts[0]
        return {port: TimedFrame.joined([part[port] for part in parts]) for port in parts[0]}

    def advance_in_portions(
        self, state: Any, before_ms: int, clock_ms: int
    ) -> Iterator[TimePortion]:
        """Yield the results of a stretch of time after those of the one before."""
        for stop_ms, found in self._stretches(state, before_ms, clock_ms):
            yield TimePortion(_frames(found), stop_ms)

    def _stretches(
        self, state: Any, before_ms: int, clock_ms: int
    ) -> Iterator[tuple[int, TimedFrames]]:
        """Yield the end of each stretch of time, and its results."""
        assert before_ms <= clock_ms, f"clock back from {before_ms} to {clock_ms}"
        for stop_ms in state.waiting.stops(clock_ms):
            yield stop_ms, self.taken(state, before_ms, stop_ms)
            before_ms = stop_ms

    def pending(self, state: Any) -> bool:
        """Whether rows wait, or partial matches whose time ends."""
        return bool(state.pending())


def late_frame(late: pl.DataFrame, reason: str) -> pl.DataFrame:
    """Return late rows with the columns that all of them have."""
    if late.is_empty():
        return _no_late(tuple(late.columns), tuple(late.dtypes))
    return _with_reason(late, reason)


@lru_cache(maxsize=256)
def _no_late(names: tuple[str, ...], types: tuple[pl.DataType, ...]) -> pl.DataFrame:
    """Return no late rows, for rows with these columns.  Most steps have none."""
    return _with_reason(pl.DataFrame(schema=dict(zip(names, types, strict=True))), "")


def _with_reason(late: pl.DataFrame, reason: str) -> pl.DataFrame:
    own = [name for name in late.columns if not name.startswith("@") or name.startswith(OWN)]
    reasons = repeated_text(REASON, reason, late.height)
    segment = [late[SEGMENT]] if SEGMENT in late.columns else []
    return late[[*ROW_COLUMNS, *own]].hstack([reasons, *segment])


def refused_frame(first_refs: Numbers, rows: StepRows, reason: str) -> pl.DataFrame:
    """Return the first rows of partial matches that are refused, as late rows."""
    own = rows.rows(first_refs >> STEP_BITS)
    at_ms = own[EVENT_TIME].to_numpy()
    return late_frame(missed(own, at_ms, at_ms + 1, at_ms + 1), reason)


def _frames(results: TimedFrames) -> Frames:
    return {port: each.frame for port, each in results.items()}
