"""The operator contract: rows of inputs in, rows of ports out, keyed state between.

An ``Operator`` is a declaration: inputs, ports, clock, horizon.  Its ``Body`` does the work.  A
task (task.py) runs it on one log partition, and nothing else does: Kafka services, Spark,
``tidemark try``, tests and conformance cases share that one way, so their results cannot differ.

A new operator subclasses ``Body``; one on windows of a single input subclasses ``WindowBody``.
See docs/semantics.md, "A segment acts" and "Batches of segments".
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.operators.ports import LATE, LATE_BY, PANES, Input, Port
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.clock import ClockTable, ProcessingClock
from tidemark.core.time.segment import WATERMARK
from tidemark.core.windows.pane import END, START

Changes = Mapping[str, pl.DataFrame]
"""A piece of keyed state as named frames: what a changelog record or a snapshot holds."""

Frames = Mapping[str, pl.DataFrame]
"""Rows by the name of an input or a port."""

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class State(Protocol):
    """Keyed state of one operator on one log partition."""

    def changes(self) -> Changes:
        """Return what was added or replaced since the last call; empty frames are left out."""

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state in pieces that, applied to a fresh state, give an equal one.

        The pieces show the state at the moment of the call, although each is made when it is asked
        for.  They have nothing in common: they apply in any order, and joined ones as one.
        """

    def size_bytes(self) -> int:
        """Return about how many bytes a snapshot would have."""

    def open_windows(self) -> int:
        """Count the windows of this log partition that rows can still reach.

        Windows that are the same for all keys count once, others once for each key.
        """

    def apply(self, changes: Changes) -> None:
        """Add one piece; pieces are applied in the order in which they were made."""

    def purge(self, clock_ms: int) -> None:
        """Drop what no row can reach any more; may be called at any moment, or never."""

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""


class Body(ABC):
    """The work of an operator: how rows change state, and what is due.

    Rows of an input have the columns ``ROW_COLUMNS``, with SOURCE as text and WATERMARK as the W
    that the row is judged by, and the input's own columns.  They are in log order.  With several
    inputs each frame has a column ORDER: the row's place among the rows of all inputs.
    """

    @property
    @abstractmethod
    def outputs(self) -> tuple[Port, ...]:
        """What is published, the main port first."""

    @abstractmethod
    def open(self, store: BlockStore = IN_MEMORY, /) -> Any:
        """Return empty state whose blocks lie in ``store``."""

    @abstractmethod
    def process(self, sides: Frames, state: Any) -> Frames:
        """Take rows by input; return what they publish at once, by port.

        Late rows keep all columns of their input and gain ``start``, ``end`` and ``late_by_ms``; a
        column ``LATE_REASON`` says why, where the reason is not "late".
        In a batch, rows have a column SEGMENT, and so has every frame returned.
        """

    @abstractmethod
    def advance(self, state: Any, before_ms: int, clock_ms: int) -> Frames:
        """Return what is due in (before_ms, clock_ms], and corrections of what was published.

        ``before_ms``: the clock before the segment.  Rows are in the order that
        docs/semantics.md, "Order in a topic", gives.
        """

    # Abilities: an operator that lacks one leaves its default.

    @property
    def can_batch(self) -> bool:
        """Whether many segments can be taken as one (docs/semantics.md, "Batches of segments")."""
        return False

    @property
    def max_late_segments(self) -> int:
        """How many segments that need a step of their own a batch may hold; 0: none."""
        return 0

    def needs_own_step(self, sides: Frames) -> Mapping[str, Mask]:
        """Return, by input, which rows may correct what was published before."""
        return {name: np.zeros(frame.height, np.bool_) for name, frame in sides.items()}

    def advance_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Return what ``advance`` gives for segments one by one, with its number in SEGMENT.

        ``clock_ms``: the clock after each segment of the batch.
        """
        raise NotImplementedError(f"{type(self).__name__} takes segments one by one")

    def record(self, state: Any, now_ms: int, clock_ms: int) -> None:  # noqa: B027 - optional
        """Take the processing time of a segment and the clock, both before its rows."""

    def pending(self, state: Any) -> bool:
        """Whether state holds anything that time alone makes due.

        An operator with nothing pending and idle sources is idle itself.
        """
        return bool(state.open_windows())


class WindowBody(Body):
    """An operator on windows of one input, with the two ports of ``window_ports``."""

    @abstractmethod
    def fold(self, rows: pl.DataFrame, state: Any) -> pl.DataFrame:
        """Fold rows into the state; return the late ones, with the window that they missed."""

    @abstractmethod
    def publish(self, state: Any, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return panes that are due in (before_ms, clock_ms], and corrections."""

    def process(self, sides: Frames, state: Any) -> Frames:
        """Fold the rows of the one input."""
        (frame,) = sides.values()
        return {LATE: self.fold(frame, state)}

    def advance(self, state: Any, before_ms: int, clock_ms: int) -> Frames:
        """Publish panes."""
        return {PANES: self.publish(state, before_ms, clock_ms)}

    def needs_own_step(self, sides: Frames) -> Mapping[str, Mask]:
        """Return which rows may correct panes that were published before."""
        return {name: self.corrects(frame) for name, frame in sides.items()}

    def corrects(self, rows: pl.DataFrame) -> Mask:
        """Return which rows may correct panes that were published before."""
        return np.zeros(rows.height, np.bool_)

    def advance_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Publish panes of a batch."""
        return {PANES: self.publish_each(state, before_ms, clock_ms)}

    def publish_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> pl.DataFrame:
        """Return what ``publish`` gives for segments one by one, with its number in SEGMENT."""
        raise NotImplementedError(f"{type(self).__name__} takes segments one by one")


@dataclass(frozen=True)
class Operator:
    """A keyed operator over inputs from one log.

    Args:
        name: of the operator, unique in the pipeline.
        inputs: its sides.
        body: what it does.
        horizon_ms: how long after a row, in event time, its last result may still be due.
        advances: whether the clock goes on by silence of all sources.
        by_arrival: whether rows get the column ARRIVAL.
        by_processing_time: whether time is when ingest recorded a segment, for rows and clock.
    """

    name: str
    inputs: tuple[Input, ...]
    body: Body
    horizon_ms: int = 0
    advances: bool = True
    by_arrival: bool = False
    by_processing_time: bool = False

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What the operator publishes."""
        return self.body.outputs

    def port(self, name: str) -> Port:
        """Return a port by name."""
        return next(port for port in self.outputs if port.name == name)

    @property
    def streams(self) -> frozenset[str]:
        """The streams that any input reads."""
        return frozenset(name for each in self.inputs for name in each.streams)

    @property
    def sources(self) -> frozenset[str]:
        """The raw topics and operators whose watermarks make the clock."""
        return frozenset().union(*(each.sources for each in self.inputs))

    def clocks(self) -> ClockTable:
        """Return the clock table of a log partition that nothing was read from."""
        kind = ProcessingClock if self.by_processing_time else ClockTable
        return kind(self.sources, advances=self.advances)


def missed(
    rows: pl.DataFrame, start_ms: Numbers, end_ms: Numbers, allowed_lateness_ms: int
) -> pl.DataFrame:
    """Return late rows with the window that each missed, and by how much.

    Adds ``start`` and ``end`` of the window and ``late_by_ms`` = W - end - allowed lateness, at
    least 0; all Int64.
    """
    by_ms = rows[WATERMARK].to_numpy() - end_ms - allowed_lateness_ms
    return rows.hstack(
        [
            pl.Series(START, start_ms),
            pl.Series(END, end_ms),
            pl.Series(LATE_BY, np.maximum(by_ms, 0)),
        ]
    )
