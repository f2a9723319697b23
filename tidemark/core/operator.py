"""What every keyed operator is: rows in, panes and late rows out, in one verb.

``Operator.step`` is the only way rows and time reach keyed state.  The Kafka task, the Spark job
and the in-process runner call it and nothing else, so their results cannot differ.  The order of
acts is that of docs/semantics.md, "A segment acts": rows, watermarks, idle marks, publication.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.block_store import IN_MEMORY, BlockStore
from tidemark.core.clock import ClockTable, Entry, ProcessingClock
from tidemark.core.pane import END, END_OF_INPUT, START
from tidemark.core.segment import (
    ARRIVAL,
    EVENT_TIME,
    OFFSET,
    ROW_COLUMNS,
    SOURCE,
    SUB_ROW,
    WATERMARK,
    Segment,
)

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
        entry = clocks.enter(segment)
        rows = self._judged(segment, entry)
        if isinstance(self.body, Recorded):
            self.body.record(state, segment.ingested_at_ms, before_ms)
        late = self.body.fold(rows, state)
        clock_ms = clocks.leave(segment)
        return Output(self.body.publish(state, before_ms, clock_ms), late, rows.height)

    def finish(self, clocks: ClockTable, state: Any) -> Output:
        """End of bounded input: publish every window still open, marked ``end_of_input``."""
        before_ms = clocks.clock_ms
        late = self.body.fold(self._empty_rows(), state)
        panes = self.body.publish(state, before_ms, clocks.finish())
        return Output(panes.with_columns(pl.lit(value=True).alias(END_OF_INPUT)), late, 0)

    def _judged(self, segment: Segment, entry: Entry) -> pl.DataFrame:
        """Join the streams' rows in log order, each with its W; without duplicates.

        SOURCE becomes the source's name, so that rows mean the same in every segment.
        """
        columns = (*ROW_COLUMNS, *self.columns)
        streams = [segment.streams[name] for name in self.streams if name in segment.streams]
        if not streams:
            return self._empty_rows()
        rows = streams[0].select(columns)
        if len(streams) > 1:
            rows = pl.concat(stream.select(columns) for stream in streams)
            rows = rows.sort(SOURCE, OFFSET, SUB_ROW)
        source = rows[SOURCE].to_numpy()
        watermark_ms = np.maximum(rows[WATERMARK].to_numpy(), entry.floor_ms[source])
        names = pl.Series([mark.source for mark in segment.sources], dtype=pl.String)
        judged = rows.with_columns(
            names.gather(rows[SOURCE]).alias(SOURCE), pl.Series(WATERMARK, watermark_ms)
        )
        if self.by_arrival:
            judged = judged.with_columns(
                pl.Series(ARRIVAL, rows[OFFSET].to_numpy() + entry.arrival[source])
            )
        if entry.now_ms is not None:
            now = pl.lit(entry.now_ms, pl.Int64())
            judged = judged.with_columns(now.alias(EVENT_TIME), now.alias(WATERMARK))
        new = rows[OFFSET].to_numpy() >= entry.first_new[source]
        return judged if new.all() else judged.filter(pl.Series(new))

    def _empty_rows(self) -> pl.DataFrame:
        arrival = {ARRIVAL: pl.Int64()} if self.by_arrival else {}
        return pl.DataFrame(schema={**ROW_COLUMNS, SOURCE: pl.String(), **self.columns, **arrival})


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
