"""Tasks: the only way in which rows and time reach the keyed state of a log partition.

``OperatorTask`` runs one operator on a log partition, ``LogTask`` all operators of its log.  A step
follows the order of docs/semantics.md, "A segment acts": rows, watermarks, idle marks, publication.
``steps`` batches segments if the operator can ("Batches of segments" there).  A batch publishes the
same results, and for each result the same segment.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Changes, Frames, Numbers, Operator
from tidemark.core.operators.ports import DEAD, LATE
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.row_watermarks import SEGMENT, LogRows, rows_in_log_order, with_watermarks
from tidemark.core.time.segment import Segment
from tidemark.core.windows.pane import END_OF_INPUT


@dataclass(frozen=True, slots=True)
class Output:
    """The rows that one step published, by port; always rows = accepted + late + dead."""

    frames: Frames
    rows: int
    late: int
    dead: int = 0

    def __getitem__(self, port: str) -> pl.DataFrame:
        """Return the rows of a port that the step published to."""
        return self.frames[port]

    @property
    def accepted(self) -> int:
        """The number of rows that changed state."""
        return self.rows - self.late - self.dead


@dataclass(frozen=True, slots=True)
class Steps:
    """The output of one segment, or of a batch.

    ``segment_of``: by port, the number of the segment that published each row.  ``clock_ms``: the
    clock after the last segment.
    """

    output: Output
    segment_of: Mapping[str, Numbers]
    clock_ms: int


@dataclass
class Tally:
    """Counts since the start: rows = accepted + late + dead.  ``results``: rows of other ports."""

    rows: int = 0
    late: int = 0
    dead: int = 0
    results: int = 0

    @property
    def accepted(self) -> int:
        """The number of rows that changed state."""
        return self.rows - self.late - self.dead

    def add(self, output: Output) -> None:
        """Add the counts of a step."""
        published = sum(frame.height for frame in output.frames.values())
        self.rows += output.rows
        self.late += output.late
        self.dead += output.dead
        self.results += published - output.late - output.dead


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The changes of a task since its last checkpoint, and the place where it continues.

    ``clocks``: ``ClockTable.state``.  ``next_offset``: the next offset of the log to take.
    """

    changes: Changes
    clocks: pl.DataFrame
    next_offset: int


class OperatorTask:
    """One operator on one log partition: clocks, state, and the next offset of the log."""

    def __init__(
        self, operator: Operator, store: BlockStore = IN_MEMORY, tally: Tally | None = None
    ) -> None:
        """Start before the first segment; ``tally``: counts that several tasks share."""
        self.operator = operator
        self.clocks = operator.clocks()
        self.state: Any = operator.body.open(store)
        self.next_offset = 0
        self.tally = Tally() if tally is None else tally

    @property
    def clock_ms(self) -> int:
        """The clock after the segments taken so far."""
        return self.clocks.clock_ms

    def step(self, segment: Segment) -> Output:
        """Process a segment's rows, move the clock, publish due results."""
        (steps,) = self.steps([segment])
        return steps.output

    def steps(self, segments: Sequence[Segment]) -> Iterator[Steps]:
        """Process segments, in batches if the operator can.

        The clock moves at once, and the state moves with each ``Steps``.  So read all of them, and
        until then purge by ``Steps.clock_ms``.

        Raises:
            UnreadableRowsError: a segment's rows do not have the columns of an input.
        """
        before_ms = self.clocks.clock_ms
        sides, clocks_ms = self._with_watermarks(segments)
        for low, high in pairwise(self._bounds(sides, len(segments))):
            part = {name: each.of_segments(low, high) for name, each in sides.items()}
            clock_ms = clocks_ms[low:high]
            if high - low == 1:
                frames = {name: each.rows for name, each in part.items()}
                output = self._one_step(segments[low], frames, before_ms, clock_ms[0])
                heights = {port: frame.height for port, frame in output.frames.items()}
                segment_of = {port: np.full(height, low) for port, height in heights.items()}
            else:
                output, numbers = self._batch(part, low, before_ms, clock_ms)
                segment_of = {port: low + number for port, number in numbers.items()}
            self.tally.add(output)
            yield Steps(output, segment_of, clock_ms[-1])
            before_ms = clock_ms[-1]

    def finish(self) -> Output:
        """End bounded input: publish all open windows, marked with END_OF_INPUT."""
        before_ms = self.clocks.clock_ms
        sides, _ = self._with_watermarks([])
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
        return Checkpoint(self.state.changes(), self.clocks.state(), self.next_offset)

    def snapshot(self) -> Iterator[Changes]:
        """Return all state in pieces."""
        pieces: Iterator[Changes] = self.state.snapshot()
        return pieces

    def restore(self, pieces: Iterable[Changes], clocks: pl.DataFrame, next_offset: int) -> None:
        """Apply the changes of checkpoints, in order, to a task that has read nothing."""
        for piece in pieces:
            self.state.apply(piece)
        self.resume(clocks, next_offset)

    def resume(self, clocks: pl.DataFrame, next_offset: int) -> None:
        """Continue from a checkpoint whose changes are applied."""
        self.clocks.apply(clocks)
        self.next_offset = next_offset

    def discard_changes(self, clock_ms: int) -> None:
        """Drop the changes, for tasks without a changelog, and the state that no row can reach."""
        self.state.changes()
        self.state.purge(clock_ms)

    def _with_watermarks(
        self, segments: Sequence[Segment]
    ) -> tuple[Mapping[str, LogRows], Sequence[int]]:
        """Return the rows of each input with their W, and the clock after each segment."""
        operator = self.operator
        found = [
            rows_in_log_order(segments, each.streams, each.columns) for each in operator.inputs
        ]
        entries, clocks_ms = [], []
        for segment in segments:
            entries.append(self.clocks.enter(segment))
            clocks_ms.append(self.clocks.leave(segment))
        found = with_watermarks(found, segments, entries, by_arrival=operator.by_arrival)
        names = (each.name for each in operator.inputs)
        return dict(zip(names, found, strict=True)), clocks_ms

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

    def _one_step(self, segment: Segment, sides: Frames, before_ms: int, clock_ms: int) -> Output:
        self.operator.body.record(self.state, segment.ingested_at_ms, before_ms)
        return self._act(sides, before_ms, clock_ms)

    def _act(self, sides: Frames, before_ms: int, clock_ms: int) -> Output:
        body = self.operator.body
        processed = body.process(sides, self.state)
        advanced = body.advance(self.state, before_ms, clock_ms)
        return self._output(sides, _joined(processed, advanced))

    def _batch(
        self, part: Mapping[str, LogRows], low: int, before_ms: int, clock_ms: Sequence[int]
    ) -> tuple[Output, Mapping[str, Numbers]]:
        """Process a batch; return its output and, by port, the segment of each row."""
        sides = {
            name: each.rows.hstack([pl.Series(SEGMENT, each.segment_of - low)])
            for name, each in part.items()
        }
        body = self.operator.body
        processed = body.process(sides, self.state)
        advanced = body.advance_each(self.state, before_ms, clock_ms)
        frames = {
            port: frame.sort(SEGMENT, maintain_order=True)
            if port in processed.keys() & advanced
            else frame
            for port, frame in _joined(processed, advanced).items()
        }
        numbers = {port: frame[SEGMENT].to_numpy() for port, frame in frames.items()}
        return self._output(sides, {p: frame.drop(SEGMENT) for p, frame in frames.items()}), numbers

    def _output(self, sides: Frames, frames: Frames) -> Output:
        kinds = {port.name: port.kind for port in self.operator.outputs}
        late = sum(frame.height for port, frame in frames.items() if kinds[port] == LATE)
        dead = sum(frame.height for port, frame in frames.items() if kinds[port] == DEAD)
        return Output(frames, sum(frame.height for frame in sides.values()), late, dead)


def _joined(processed: Frames, advanced: Frames) -> Frames:
    """Return the rows of each port: those of ``process``, then those of ``advance``."""
    return {
        **processed,
        **{
            port: pl.concat([processed[port], frame]) if port in processed else frame
            for port, frame in advanced.items()
        },
    }


class LogTask:
    """All operators of a log, on one partition of the log, in the order of the plan."""

    def __init__(self, operators: Iterable[Operator], store: BlockStore = IN_MEMORY) -> None:
        """Start before the first segment."""
        self.tasks = [OperatorTask(each, store) for each in operators]

    @property
    def streams(self) -> frozenset[str]:
        """The streams that any of the operators reads."""
        return frozenset().union(*(task.operator.streams for task in self.tasks))

    @property
    def clock_ms(self) -> int:
        """The lowest clock of the operators."""
        return min(task.clock_ms for task in self.tasks)

    def steps(self, segments: Sequence[Segment]) -> Iterator[tuple[OperatorTask, Steps]]:
        """Process segments with each operator, without a changelog."""
        for task in self.tasks:
            for steps in task.steps(segments):
                task.discard_changes(steps.clock_ms)
                yield task, steps

    def finish(self) -> Iterator[tuple[OperatorTask, Output]]:
        """End bounded input for each operator."""
        for task in self.tasks:
            yield task, task.finish()
