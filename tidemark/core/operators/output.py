"""What a task returns: the output of steps, counts of it, and checkpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tidemark.core.operators.operator import Changes, Frames, Numbers
from tidemark.core.operators.portions import BEGIN, Place


@dataclass(frozen=True, slots=True)
class Output:
    """The rows that one step published, by port; always rows = accepted + late + dead.

    ``failed``: the number of panes whose values could not be computed.  ``duplicates``: the number
    of rows that gave no result because they repeat others.
    """

    frames: Frames
    rows: int
    late: int
    dead: int = 0
    failed: int = 0
    duplicates: int = 0

    def __getitem__(self, port: str) -> pl.DataFrame:
        """Return the rows of a port that the step published to."""
        return self.frames[port]

    @property
    def accepted(self) -> int:
        """The number of rows that changed state."""
        return self.rows - self.late - self.dead


@dataclass(frozen=True, slots=True)
class Steps:
    """The output of one segment or a portion of it, or of a batch.

    ``segment_of``: by port, the number of the segment that published each row.  ``clock_ms``: the
    time up to which results are published; the clock after the last segment if it is complete.
    ``can_pause``: whether ``OperatorTask.checkpoint`` may be called now.
    """

    output: Output
    segment_of: Mapping[str, Numbers]
    clock_ms: int
    can_pause: bool = False


@dataclass
class Tally:
    """Counts since the start: rows = accepted + late + dead.

    ``results``: published results.  ``failed``: panes whose values could not be computed, and those
    that operators after this one refuse.
    ``duplicates``: accepted rows that repeat others.
    """

    rows: int = 0
    late: int = 0
    dead: int = 0
    results: int = 0
    failed: int = 0
    duplicates: int = 0

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
        self.failed += output.failed
        self.duplicates += output.duplicates
        self.results += published - output.late - output.dead - output.failed


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The changes of a task since its last checkpoint, and the place where it continues.

    ``clocks``: ``ClockTable.state``.  ``next_offset``: the next offset of the log to take.
    ``place``: how much of the segment there is processed; ``clocks`` are those before the segment.
    """

    changes: Changes
    clocks: pl.DataFrame
    next_offset: int
    place: Place = BEGIN


def as_one(outputs: Sequence[Output]) -> Output:
    """Return the outputs of the portions of a segment as one."""
    if len(outputs) == 1:
        return outputs[0]
    ports = dict.fromkeys(port for output in outputs for port in output.frames)
    return Output(
        {
            port: pl.concat(
                [each.frames[port] for each in outputs if port in each.frames],
                how="vertical_relaxed",  # a number that its type cannot hold widens the column
            )
            for port in ports
        },
        sum(output.rows for output in outputs),
        sum(output.late for output in outputs),
        sum(output.dead for output in outputs),
        sum(output.failed for output in outputs),
        sum(output.duplicates for output in outputs),
    )
