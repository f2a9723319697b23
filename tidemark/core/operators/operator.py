"""What every keyed operator is: rows in, panes and late rows out, in one verb.

A step is the only way rows and time reach keyed state.  The Kafka task, the Spark job and the
in-process runner take steps and do nothing else, so their results cannot differ.  The order of
acts is that of docs/semantics.md, "A segment acts": rows, watermarks, idle marks, publication.

``Operator.steps`` takes many at once: where a body is ``Patient``, the rows of many segments are
folded together and published once.  What is given, and by which segment, is the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.clock import ClockTable, ProcessingClock
from tidemark.core.time.row_watermarks import SEGMENT, Laid, judged, laid
from tidemark.core.time.segment import WATERMARK, Segment
from tidemark.core.windows.pane import END, END_OF_INPUT, START

LATE_BY = "late_by_ms"

Changes = Mapping[str, pl.DataFrame]
"""A piece of keyed state as named frames: what a changelog record or a snapshot holds."""


class State(Protocol):
    """Keyed state of one operator on one log partition."""

    def changes(self) -> Changes:
        """Return what was added or replaced since the last call; empty frames are left out."""

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state in pieces that, applied to a fresh state, give an equal one.

        It is the state at the moment of the call, although a piece is made when it is asked for.
        Pieces have nothing in common: they apply in any order, and joined ones as one.
        """

    def size_bytes(self) -> int:
        """Return about how many bytes a snapshot would have."""

    def open_windows(self) -> int:
        """Count the windows that rows can still reach, of this log partition.

        Windows that are the same for all keys count once, others once for each key.
        """

    def apply(self, changes: Changes) -> None:
        """Add one piece; pieces are applied in the order in which they were made."""

    def purge(self, clock_ms: int) -> None:
        """Drop what no row can reach any more; may be called at any moment, or never."""

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""


class Body(Protocol):
    """The part of an operator that differs: how rows fold and what is due."""

    def fresh(self, store: BlockStore = IN_MEMORY, /) -> Any:
        """Return empty state, whose blocks lie in ``store``."""

    def fold(self, rows: pl.DataFrame, state: Any) -> pl.DataFrame:
        """Fold rows, whose WATERMARK column is W, into the state; return the late ones.

        Late rows keep all columns of ``rows`` and gain ``start``, ``end`` (the window missed) and
        ``late_by_ms`` (W - end - allowed lateness, at least 0).
        """

    def publish(self, state: Any, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return panes due in (before_ms, clock_ms] and corrections of those already published.

        The clock stood at ``before_ms`` when the segment began.  Sorted as docs/semantics.md,
        "Order in a topic", says.
        """


@runtime_checkable
class Recorded(Protocol):
    """A body that looks at processing time, which is when ingest recorded a segment."""

    def record(self, state: Any, now_ms: int, clock_ms: int) -> None:
        """Take the processing time of a segment and the clock, both before its rows."""


@runtime_checkable
class Patient(Protocol):
    """A body that can fold several segments and publish once, and tell them apart by SEGMENT.

    See docs/semantics.md, "Batches of segments".
    """

    @property
    def together(self) -> bool:
        """Whether it can, with its trigger."""

    @property
    def most_pressing(self) -> int:
        """How many segments with pressing rows may be together; 0: each of them goes alone."""

    def pressing(self, rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
        """Return which rows may ask for corrections of what was published before."""

    def publish_each(
        self, state: Any, before_ms: int, clock_ms: Sequence[int]
    ) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
        """Return what ``publish`` gives for segments one by one, and the number of each's segment.

        ``clock_ms``: where the clock stands after each segment.
        """


@dataclass(frozen=True, slots=True)
class Output:
    """What one step gave: ``rows`` = accepted + late, always."""

    panes: pl.DataFrame
    late: pl.DataFrame
    rows: int

    @property
    def accepted(self) -> int:
        """Count the rows that were folded into state."""
        return self.rows - self.late.height


@dataclass(frozen=True, slots=True)
class Steps:
    """What segments that follow each other gave.

    ``of_pane``, ``of_late``: the number of the segment that gave each pane and late row.
    ``clock_ms``: the clock after the last of them.
    """

    output: Output
    of_pane: npt.NDArray[np.int64]
    of_late: npt.NDArray[np.int64]
    clock_ms: int


@dataclass(frozen=True)
class Operator:
    """A keyed operator over one or several streams of one log.

    ``topics``: raw topics behind the streams, whose sources make the clock.  ``columns``: the
    streams' value columns with their types, the key's among them.  ``advances``: whether the clock
    goes on by their silence.  ``by_arrival``: whether the body's rows get a column ARRIVAL.
    ``by_processing_time``: whether time is when ingest recorded a segment, for rows and clock.
    """

    name: str
    streams: tuple[str, ...]
    topics: frozenset[str]
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    body: Body
    advances: bool = True
    by_arrival: bool = False
    by_processing_time: bool = False

    def clocks(self) -> ClockTable:
        """Return the clock table of a log partition that nothing was read from."""
        kind = ProcessingClock if self.by_processing_time else ClockTable
        return kind(self.topics, advances=self.advances)

    def step(self, segment: Segment, clocks: ClockTable, state: Any) -> Output:
        """Fold a segment's rows, move the clock, publish what became due."""
        before_ms = clocks.clock_ms
        found, (clock_ms,) = self._laid([segment], clocks)
        self._record(segment, before_ms, state)
        return self._acted(found.rows, state, before_ms, clock_ms)

    def steps(self, segments: Sequence[Segment], clocks: ClockTable, state: Any) -> Iterator[Steps]:
        """Take a step for each segment, many at once where that gives the same.

        Clocks move at once, and the state with what is yielded, which is to be taken whole.  Until
        then ``clock_ms`` of what was yielded is the clock to purge by.
        """
        before_ms = clocks.clock_ms
        found, after_ms = self._laid(segments, clocks)
        for low, high in pairwise(self._bounds(found, len(segments))):
            first, last = np.searchsorted(found.of_row, (low, high)).tolist()
            rows, clock_ms = found.rows[first:last], after_ms[low:high]
            if high - low == 1:
                steps = self._alone(segments[low], rows, state, before_ms, clock_ms[0])
            else:
                numbered = pl.Series(SEGMENT, found.of_row[first:last] - low)
                steps = self._together(rows.hstack([numbered]), state, before_ms, clock_ms)
            yield replace(steps, of_pane=low + steps.of_pane, of_late=low + steps.of_late)
            before_ms = clock_ms[-1]

    def _bounds(self, found: Laid, segments: int) -> list[int]:
        """Return where the runs of segments begin that are taken together, and the end."""
        if not (isinstance(self.body, Patient) and self.body.together):
            return [*range(segments + 1)]
        pressing = np.unique(found.of_row[self.body.pressing(found.rows)])
        most = self.body.most_pressing
        cuts = [*pressing[most::most]] if most else [*pressing, *(pressing + 1)]
        bounds: list[int] = np.unique([0, segments, *cuts]).tolist()
        return bounds

    def _alone(
        self, segment: Segment, rows: pl.DataFrame, state: Any, before_ms: int, clock_ms: int
    ) -> Steps:
        self._record(segment, before_ms, state)
        output = self._acted(rows, state, before_ms, clock_ms)
        of_pane = np.zeros(output.panes.height, np.int64)
        of_late = np.zeros(output.late.height, np.int64)
        return Steps(output, of_pane, of_late, clock_ms)

    def _together(
        self, rows: pl.DataFrame, state: Any, before_ms: int, clock_ms: Sequence[int]
    ) -> Steps:
        assert isinstance(self.body, Patient), f"{self.name} takes segments one by one"
        late = self.body.fold(rows, state)
        panes, of_pane = self.body.publish_each(state, before_ms, clock_ms)
        output = Output(panes, late.drop(SEGMENT), rows.height)
        return Steps(output, of_pane, late[SEGMENT].to_numpy(), clock_ms[-1])

    def _record(self, segment: Segment, before_ms: int, state: Any) -> None:
        if isinstance(self.body, Recorded):
            self.body.record(state, segment.ingested_at_ms, before_ms)

    def _acted(self, rows: pl.DataFrame, state: Any, before_ms: int, clock_ms: int) -> Output:
        late = self.body.fold(rows, state)
        return Output(self.body.publish(state, before_ms, clock_ms), late, rows.height)

    def finish(self, clocks: ClockTable, state: Any) -> Output:
        """End of bounded input: publish every window still open, marked ``end_of_input``."""
        before_ms = clocks.clock_ms
        output = self._acted(self._laid([], clocks)[0].rows, state, before_ms, clocks.finish())
        marked = output.panes.with_columns(pl.lit(value=True).alias(END_OF_INPUT))
        return replace(output, panes=marked)

    def _laid(self, segments: Sequence[Segment], clocks: ClockTable) -> tuple[Laid, Sequence[int]]:
        """Return the rows of segments with their W, and the clock after each segment."""
        found = laid(segments, self.streams, self.columns)
        entries, clock_ms = [], []
        for segment in segments:
            entries.append(clocks.enter(segment))
            clock_ms.append(clocks.leave(segment))
        return judged(found, segments, entries, by_arrival=self.by_arrival), clock_ms


def missed(
    rows: pl.DataFrame,
    start_ms: npt.NDArray[np.int64],
    end_ms: npt.NDArray[np.int64],
    allowed_lateness_ms: int,
) -> pl.DataFrame:
    """Tell of late rows which window they missed, and by how much."""
    by_ms = rows[WATERMARK].to_numpy() - end_ms - allowed_lateness_ms
    return rows.hstack(
        [
            pl.Series(START, start_ms),
            pl.Series(END, end_ms),
            pl.Series(LATE_BY, np.maximum(by_ms, 0)),
        ]
    )
