"""The task: the only way in which rows and time reach the keyed state of a log partition.

``OperatorTask`` runs one operator on a log partition, ``LogTask`` (log_task.py) all operators of
its log.  A step follows the order of docs/semantics.md, "A segment acts": rows, watermarks, idle
marks, publication.  ``steps`` batches segments if the operator can ("Batches of segments" there).
A batch publishes the same results, and for each result the same segment.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.columns import without
from tidemark.core.operators.operator import (
    Changes,
    Frames,
    Operator,
    TooManyResultsError,
)
from tidemark.core.operators.output import Checkpoint, Output, Steps, Tally, as_one
from tidemark.core.operators.portions import (
    BEGIN,
    TARGET_BYTES,
    Place,
    RowLimit,
    bytes_of,
    counted,
    joined,
    process_some,
    span_of,
)
from tidemark.core.operators.ports import CHANGES, DEAD, FAILED, LATE
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.clock import ClockTable, Entry
from tidemark.core.time.reached import Reached, behind
from tidemark.core.time.row_watermarks import (
    SEGMENT,
    LogRows,
    rows_in_log_order,
    with_watermarks,
)
from tidemark.core.time.segment import Segment
from tidemark.core.windows.pane import END_OF_INPUT


class OperatorTask:
    """One operator on one log partition: clocks, state, and the next offset of the log."""

    def __init__(
        self,
        operator: Operator,
        store: BlockStore = IN_MEMORY,
        tally: Tally | None = None,
        portion_bytes: int = TARGET_BYTES,
    ) -> None:
        """Start before the first segment.

        ``tally``: counts that several tasks share.  ``portion_bytes``: the approximate size of the
        results of a portion of rows.
        """
        self.operator = operator
        self.clocks = operator.clocks()
        self._streams = operator.streams
        self.state: Any = operator.body.open(store)
        self.next_offset = 0
        self.tally = Tally() if tally is None else tally
        self._place = BEGIN
        self._clocks_before: ClockTable | None = None  # while a segment is in progress
        self._before_ms = self._published_ms = self.clocks.clock_ms
        self._limit = RowLimit(target_bytes=portion_bytes)

    @property
    def clock_ms(self) -> int:
        """The clock after the segments taken so far."""
        return self.clocks.clock_ms

    @property
    def published_ms(self) -> int:
        """The time up to which results are published: the clock, if no segment is in progress."""
        return self._published_ms if self._clocks_before is not None else self.clocks.clock_ms

    def reached(self) -> Reached:
        """Return how far the results of the main port are complete, for operators after this one.

        A segment in progress does not count yet.
        """
        port = self.operator.outputs[0]
        assert port.holds_ms is not None, f"{self.operator.name}: results of any age may follow"
        # Operators that read changes accept them behind the clock.
        holds_ms = 0 if port.mode == CHANGES else port.holds_ms
        if self._clocks_before is not None:
            return Reached(behind(self._before_ms, holds_ms), is_idle=False)
        idle = self.clocks.is_idle and not self.operator.body.pending(self.state)
        return Reached(behind(self.clocks.clock_ms, holds_ms), idle)

    def step(self, segment: Segment) -> Output:
        """Process a segment's rows, move the clock, publish due results.

        The output has a frame for each port, even if nothing is due.
        """
        return as_one([steps.output for steps in self._steps([segment], may_rest=False)])

    def steps(self, segments: Sequence[Segment]) -> Iterator[Steps]:
        """Process segments, in batches if the operator can, else in portions if it can.

        The clock moves at once, and the state moves with each ``Steps``.  So read all of them, and
        until then purge by ``Steps.clock_ms``.  Segments without rows that make nothing due give no
        ``Steps``.

        Raises:
            UnreadableRowsError: a segment's rows do not have the column types of an input.
        """
        return self._steps(segments, may_rest=True)

    def _steps(self, segments: Sequence[Segment], *, may_rest: bool) -> Iterator[Steps]:
        before_ms = self._before_ms = self._published_ms = self.clocks.clock_ms
        # A lone segment can be left in the middle.
        self._clocks_before = self.clocks.copy() if len(segments) == 1 else None
        bare = [self._streams.isdisjoint(segment.streams) for segment in segments]
        can_rest = may_rest and self._place == BEGIN
        read = None if can_rest and all(bare) else self._read(segments)
        entries, clocks_ms = self._move(segments)
        if read is None:
            if self._rests(before_ms, clocks_ms):
                self._clocks_before = None
                return
            read = self._read(segments)
        sides = self._sides(read, segments, entries)
        for low, high in pairwise(self._bounds(sides, len(segments))):
            if can_rest and all(bare[low:high]) and self._rests(before_ms, clocks_ms[low:high]):
                before_ms = clocks_ms[high - 1]
                continue
            part = {name: each.of_segments(low, high) for name, each in sides.items()}
            clock_ms = clocks_ms[low:high]
            batch = self._batch(part, low, before_ms, clock_ms) if high - low > 1 else None
            if batch is not None:
                yield batch
                before_ms = clock_ms[-1]
                continue
            for number in range(low, high):
                one = {name: each.of_segments(number, number + 1) for name, each in sides.items()}
                now_ms = clocks_ms[number]
                yield from self._one_by_one(segments[number], number, one, before_ms, now_ms)
                self._place, before_ms = BEGIN, now_ms
        self._clocks_before = None

    def finish(self) -> Output:
        """End bounded input: publish all open windows, marked with END_OF_INPUT."""
        before_ms = self.clocks.clock_ms
        sides = self._sides(self._read([]), [], [])
        frames = {name: each.rows for name, each in sides.items()}
        output = self._act(frames, before_ms, self.clocks.finish())
        marked = {
            name: frame
            if self.operator.port(name).rejects
            else frame.with_columns(pl.lit(value=True).alias(END_OF_INPUT))
            for name, frame in output.frames.items()
        }
        self.tally.add(output)
        return replace(output, frames=marked)

    def checkpoint(self) -> Checkpoint:
        """Return the changes since the last checkpoint."""
        return Checkpoint(self.state.changes(), *self.position())

    def position(self) -> tuple[pl.DataFrame, int, Place]:
        """Return clocks, next offset and place to continue from, see ``Checkpoint``."""
        clocks = self.clocks if self._clocks_before is None else self._clocks_before
        return clocks.state(), self.next_offset, self._place

    def snapshot(self) -> Iterator[Changes]:
        """Return all state in pieces."""
        pieces: Iterator[Changes] = self.state.snapshot()
        return pieces

    def restore(
        self,
        pieces: Iterable[Changes],
        clocks: pl.DataFrame,
        next_offset: int,
        place: Place = BEGIN,
    ) -> None:
        """Apply the changes of checkpoints, in order, to a task that has read nothing."""
        for piece in pieces:
            self.state.apply(piece)
        self.resume(clocks, next_offset, place)

    def resume(self, clocks: pl.DataFrame, next_offset: int, place: Place = BEGIN) -> None:
        """Continue from a checkpoint whose changes are applied.

        If ``place`` is within a segment, the next call of ``steps`` takes that segment alone.
        """
        self.clocks.apply(clocks)
        self.next_offset = next_offset
        self._place = place

    @property
    def place(self) -> Place:
        """How much of the segment at ``next_offset`` is processed."""
        return self._place

    def discard_changes(self, clock_ms: int) -> None:
        """Drop the changes, for tasks without a changelog, and the state that no row can reach."""
        self.state.changes()
        self.state.purge(clock_ms)

    def _move(self, segments: Sequence[Segment]) -> tuple[Sequence[Entry], Sequence[int]]:
        """Move the clock; return what the rows of each segment need, and the clock after it."""
        entries, clocks_ms = [], []
        for segment in segments:
            entries.append(self.clocks.enter(segment))
            clocks_ms.append(self.clocks.leave(segment))
        return entries, clocks_ms

    def _rests(self, before_ms: int, clocks_ms: Sequence[int]) -> bool:
        """Whether segments without rows that move the clock so have nothing to do."""
        now_ms = clocks_ms[-1] if clocks_ms else before_ms
        return self.operator.body.rests(self.state, before_ms, now_ms)

    def _read(self, segments: Sequence[Segment]) -> Sequence[LogRows]:
        """Return the rows of each input."""
        inputs = self.operator.inputs
        return [rows_in_log_order(segments, each.streams, each.columns) for each in inputs]

    def _sides(
        self, read: Sequence[LogRows], segments: Sequence[Segment], entries: Sequence[Entry]
    ) -> Mapping[str, LogRows]:
        """Return the rows of each input with their W, by the name of the input."""
        operator = self.operator
        found = with_watermarks(read, segments, entries, by_arrival=operator.by_arrival)
        names = (each.name for each in operator.inputs)
        return dict(zip(names, found, strict=True))

    def _bounds(self, sides: Mapping[str, LogRows], segments: int) -> list[int]:
        """Return the bounds of batches: the first segment of each, then the number of segments."""
        body = self.operator.body
        if segments <= 1 or not body.can_batch:
            return [*range(segments + 1)]
        own = body.needs_own_step({name: each.rows for name, each in sides.items()})
        found = [sides[name].segment_of[mask] for name, mask in own.items()]
        alone = np.unique(np.concatenate(found))
        most = body.max_late_segments
        cuts = [*alone[most::most]] if most else [*alone, *(alone + 1)]
        bounds: list[int] = np.unique([0, segments, *cuts]).tolist()
        return bounds

    def _one_by_one(
        self,
        segment: Segment,
        number: int,
        part: Mapping[str, LogRows],
        before_ms: int,
        clock_ms: int,
    ) -> Iterator[Steps]:
        """Process one segment, from the place within it where a checkpoint was made."""
        sides = {name: each.rows for name, each in part.items()}
        place = self._place
        if place == BEGIN:
            self.operator.body.record(self.state, segment.ingested_at_ms, before_ms)
        self._published_ms = before_ms if place.published_ms is None else place.published_ms
        some, processed = yield from self._rows_in_portions(sides, number, place.rows, clock_ms)
        yield from self._time_in_portions(some, processed, number, clock_ms)

    def _rows_in_portions(
        self, sides: Frames, number: int, taken: int, clock_ms: int
    ) -> Generator[Steps, None, tuple[Frames, Frames]]:
        """Process the rows of a segment; return those of the last portion, and their results."""
        body = self.operator.body
        span = span_of(sides)
        while True:
            rows = min(self._limit.rows, span - taken) if body.can_portion else span - taken
            some, processed, rows = process_some(body, self.state, sides, taken, rows)
            taken += rows
            self._place = Place(taken)
            if taken == span:
                return some, processed
            output = self._output(some, joined(processed, body.flush(self.state, clock_ms)))
            is_full = rows >= self._limit.rows  # else its rows had too many results
            self._limit.took(rows, bytes_of(output.frames), full=is_full)
            yield self._portion(output, number, can_pause=body.can_pause(self.state))

    def _time_in_portions(
        self, sides: Frames, processed: Frames, number: int, clock_ms: int
    ) -> Iterator[Steps]:
        """Publish what the last rows of a segment make due, and time until the clock."""
        body = self.operator.body
        published_ms = self._published_ms
        rows = self._place.rows
        for portion in body.advance_in_portions(self.state, published_ms, clock_ms):
            output = self._output(sides, joined(processed, portion.frames))
            sides, processed = {name: frame.clear() for name, frame in sides.items()}, {}
            self._published_ms = portion.published_ms
            self._place = Place(rows, portion.published_ms)
            can_pause = portion.can_pause and portion.published_ms < clock_ms
            yield self._portion(output, number, can_pause=can_pause)

    def _portion(self, output: Output, number: int, *, can_pause: bool) -> Steps:
        self.tally.add(output)
        heights = {port: frame.height for port, frame in output.frames.items()}
        segment_of = {port: np.full(height, number) for port, height in heights.items()}
        alone = self._clocks_before is not None
        return Steps(output, segment_of, self._published_ms, can_pause=can_pause and alone)

    def _act(self, sides: Frames, before_ms: int, clock_ms: int) -> Output:
        body = self.operator.body
        processed = body.process(sides, self.state)
        advanced = body.advance(self.state, before_ms, clock_ms)
        return self._output(sides, joined(processed, advanced))

    def _batch(
        self, part: Mapping[str, LogRows], low: int, before_ms: int, clock_ms: Sequence[int]
    ) -> Steps | None:
        """Process a batch; return None, and process nothing, if it has too many results."""
        sides = {
            name: each.rows.hstack([pl.Series(SEGMENT, each.segment_of - low)])
            for name, each in part.items()
        }
        body = self.operator.body
        try:
            processed = body.process(sides, self.state)
        except TooManyResultsError:
            return None
        advanced = body.advance_each(self.state, before_ms, clock_ms)
        frames = {
            port: frame.sort(SEGMENT, maintain_order=True)
            if port in processed.keys() & advanced
            else frame
            for port, frame in joined(processed, advanced).items()
        }
        segment_of = {port: frame[SEGMENT].to_numpy() + low for port, frame in frames.items()}
        output = self._output(sides, {p: without(f, SEGMENT) for p, f in frames.items()})
        self.tally.add(output)
        return Steps(output, segment_of, clock_ms[-1])

    def _output(self, sides: Frames, frames: Frames) -> Output:
        kinds = {port.name: port.kind for port in self.operator.outputs}
        counts = dict.fromkeys((LATE, DEAD, FAILED), 0)
        for port, frame in frames.items():
            kind = kinds[port]
            counts[kind] = counts.get(kind, 0) + frame.height
        duplicates = self.operator.body.duplicates(self.state)
        return Output(
            frames, counted(sides), counts[LATE], counts[DEAD], counts[FAILED], duplicates
        )
