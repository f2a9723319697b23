"""The operator contract: an operator reads rows of inputs, keeps state and publishes to ports.

An ``Operator`` declares inputs, ports, clock and horizon.  Its ``Body`` does the work.  Only a task
(task.py) runs an operator, on one log partition.  Kafka services, Spark, ``tidemark try``, tests
and conformance cases all use tasks, so their results cannot differ.

A new operator subclasses ``Body``.  An operator on windows of one input subclasses ``WindowBody``.
tests/support/operators/families.py lists the operators that tests of the contract run.
See docs/semantics.md, "A segment acts" and "Batches of segments".
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.columns import renamed
from tidemark.core.operators.ports import LATE, LATE_BY, OWN, PANES, Input, Port
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.clock import ClockTable, ProcessingClock
from tidemark.core.time.segment import WATERMARK
from tidemark.core.windows.open_bounds import OpenBounds
from tidemark.core.windows.pane import END, START

Changes = Mapping[str, pl.DataFrame]
"""A piece of keyed state as frames by name: the content of a changelog record."""

Frames = Mapping[str, pl.DataFrame]
"""Frames of rows, by the name of an input or a port."""

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class State(Protocol):
    """Keyed state of one operator on one log partition."""

    def changes(self) -> Changes:
        """Return, once, the changes since the last call; without empty frames."""

    def snapshot(self) -> Iterator[Changes]:
        """Return all live state in pieces; applied to an empty state they give an equal state.

        The pieces show the state at the time of the call, although each is built when it is read.
        Pieces do not overlap.  So they apply in any order, and concatenated pieces apply as one.
        """

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""

    def open_windows(self) -> int:
        """Return the number of windows of this log partition that rows can still reach.

        Windows that all keys share count once.  Other windows count once for each key.
        """

    def open_bounds(self) -> Iterable[OpenBounds]:
        """Return the bounds of open windows as columns; windows that time never closes have none.

        It loads no blocks: where bounds lie in blocks, a place stands for all windows of a block.
        Slots load theirs, once after each change: only newest lines say which of them count.
        """

    def apply(self, changes: Changes) -> None:
        """Apply one piece; pieces apply in the order in which they were made."""

    def purge(self, clock_ms: int) -> None:
        """Drop the state that no row can reach; may be called at any time, or never."""

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""


class TooManyResultsError(Exception):
    """Some rows have too many results to make at once."""

    def __init__(self, places: int) -> None:
        """Say how many places in log order to take, from the first row on: at least one."""
        super().__init__(f"too many results at once: take rows at {places} places in log order")
        self.places = places


class Body(ABC):
    """The work of an operator: how rows change state, and which results are due.

    Rows of an input have the columns ``ROW_COLUMNS`` and the input's own columns.  SOURCE is text,
    and WATERMARK is the row's W (docs/semantics.md, "Lateness").  Rows are in log order.  With
    several inputs each frame has a column ORDER: the row's place among the rows of all inputs.
    """

    @property
    @abstractmethod
    def outputs(self) -> tuple[Port, ...]:
        """The ports that the operator publishes to, the main port first."""

    @abstractmethod
    def open(self, store: BlockStore = IN_MEMORY, /) -> Any:
        """Return empty state whose blocks lie in ``store``."""

    @abstractmethod
    def process(self, sides: Frames, state: Any) -> Frames:
        """Add rows, by input, to the state; return the rows that they publish at once, by port.

        Late rows keep all columns of their input and gain ``start``, ``end`` and ``late_by_ms``; a
        column ``REASON`` gives the reason if it is not BY_TIME.  In a batch, rows and all
        returned frames have a column SEGMENT.

        Raises:
            TooManyResultsError: the results would be too large to hold; no row is added.
        """

    @abstractmethod
    def advance(self, state: Any, before_ms: int, clock_ms: int) -> Frames:
        """Return, by port, the results due in (before_ms, clock_ms] and corrections.

        ``before_ms``: the clock before the segment.  Rows are in the order that
        docs/semantics.md, "Order in a topic", gives.
        """

    # Abilities: an operator that lacks one leaves its default.

    @property
    def can_batch(self) -> bool:
        """Whether segments can be batched (docs/semantics.md, "Batches of segments")."""
        return False

    @property
    def max_late_segments(self) -> int:
        """The number of segments a batch may hold that need a step of their own; by default 0."""
        return 0

    def needs_own_step(self, sides: Frames) -> Mapping[str, Mask]:
        """Mark, by input, the rows that may correct published results."""
        return {name: np.zeros(frame.height, np.bool_) for name, frame in sides.items()}

    def advance_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Return the results of ``advance`` for each segment, with its number in SEGMENT.

        ``clock_ms``: the clock after each segment of the batch.
        """
        raise NotImplementedError(f"{type(self).__name__} takes segments one by one")

    @property
    def can_portion(self) -> bool:
        """Whether the rows of a segment can be taken in portions, with ``flush`` after each."""
        return False

    def flush(self, state: Any, clock_ms: int) -> Frames:
        """Return the results that rows alone have made due since the last call.

        ``clock_ms``: the clock after the segment.
        """
        raise NotImplementedError(f"{type(self).__name__} takes the rows of a segment at once")

    def can_pause(self, state: Any) -> bool:  # noqa: ARG002 - an ability
        """Whether a restore after a portion of rows continues with the same results.

        It cannot where the state holds something, for ``advance``, that no changelog has.
        """
        return True

    def advance_in_portions(
        self, state: Any, before_ms: int, clock_ms: int
    ) -> "Iterator[TimePortion]":
        """Yield the results of ``advance`` in portions of limited size; at least one."""
        yield TimePortion(self.advance(state, before_ms, clock_ms), clock_ms)

    def duplicates(self, state: Any) -> int:  # noqa: ARG002 - an ability
        """Return, once, the number of rows that gave no result because they repeat others."""
        return 0

    def active_rules(self, state: Any) -> int | None:  # noqa: ARG002 - an ability
        """Return the number of rules that count; None without rules."""
        return None

    def record(self, state: Any, now_ms: int, clock_ms: int) -> None:  # noqa: B027 - optional
        """Take the processing time of a segment, before its rows; the clock has not moved yet."""

    def rests(self, state: Any, before_ms: int, clock_ms: int) -> bool:
        """Whether a segment without rows that moves the clock so changes and publishes nothing.

        The task then skips ``record``, ``process`` and ``advance``.  An operator that implements
        ``record`` must answer for what that would do.
        """
        return before_ms == clock_ms or not self.pending(state)

    def pending(self, state: Any) -> bool:
        """Whether the state holds results that time alone makes due.

        An operator with nothing pending is idle when its sources are idle.
        """
        return bool(state.open_windows())


@dataclass(frozen=True, slots=True)
class TimePortion:
    """Some of the results that a move of the clock makes due.

    ``published_ms``: all results that are due until then are published.  ``can_pause``: whether
    ``advance_in_portions`` from there, in a restored state, yields exactly the other results.
    """

    frames: Frames
    published_ms: int
    can_pause: bool = True


class WindowBody(Body):
    """An operator on windows of one input, with a port of panes and a port of late rows."""

    @abstractmethod
    def fold(self, rows: pl.DataFrame, state: Any) -> pl.DataFrame:
        """Fold rows into the state; return the late rows, with the columns that ``missed`` adds."""

    @abstractmethod
    def publish(self, state: Any, before_ms: int, clock_ms: int) -> pl.DataFrame:
        """Return the panes that are due in (before_ms, clock_ms], and corrections.

        The frame has the columns of the pane port, ``pane_schema``.
        """

    def process(self, sides: Frames, state: Any) -> Frames:
        """Fold the rows of the one input."""
        (frame,) = sides.values()
        return {LATE: self.fold(frame, state)}

    def advance(self, state: Any, before_ms: int, clock_ms: int) -> Frames:
        """Publish panes."""
        return {PANES: self.publish(state, before_ms, clock_ms)}

    def needs_own_step(self, sides: Frames) -> Mapping[str, Mask]:
        """Mark, by input, the rows that may correct published panes."""
        return {name: self.corrects(frame) for name, frame in sides.items()}

    def corrects(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows that may correct published panes."""
        return np.zeros(rows.height, np.bool_)

    def advance_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> Frames:
        """Publish panes of a batch."""
        return {PANES: self.publish_each(state, before_ms, clock_ms)}

    def publish_each(self, state: Any, before_ms: int, clock_ms: Sequence[int]) -> pl.DataFrame:
        """Return the panes of ``publish`` for each segment, with its number in SEGMENT."""
        raise NotImplementedError(f"{type(self).__name__} takes segments one by one")


@dataclass(frozen=True)
class Operator:
    """A keyed operator over inputs from one log.

    Args:
        name: of the operator, unique in the pipeline.
        inputs: one for each side.
        body: the work of the operator.
        horizon_ms: the time, in event time, after a row in which a result of it may be due.
        advances: whether the clock advances while all sources are silent.
        by_arrival: whether rows get the column ARRIVAL.
        by_processing_time: whether time is when ingest recorded a segment, for rows and clock.
        merges_within_ms: how long after a row, in event time, a window may start and still merge
            into one that begins with the row; 0 for windows that do not merge.
    """

    name: str
    inputs: tuple[Input, ...]
    body: Body
    horizon_ms: int = 0
    advances: bool = True
    by_arrival: bool = False
    by_processing_time: bool = False
    merges_within_ms: int = 0

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The ports that the operator publishes to, the main port first."""
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
        """Return the clock table for a log partition before its first segment."""
        kind = ProcessingClock if self.by_processing_time else ClockTable
        return kind(self.sources, advances=self.advances)


def missed(
    rows: pl.DataFrame, start_ms: Numbers, end_ms: Numbers, limit_ms: Numbers
) -> pl.DataFrame:
    """Return late rows with the window that each missed, and by how much.

    ``limit_ms``: the time that W has passed, per row.  Adds ``start`` and ``end`` of the window and
    ``late_by_ms`` = W - limit; all Int64.  Columns of the row with these names get the prefix
    ``OWN``.
    """
    if rows.is_empty():
        return _none_missed(tuple(rows.columns), tuple(rows.dtypes))
    return _with_windows(rows, start_ms, end_ms, rows[WATERMARK].to_numpy() - limit_ms)


@lru_cache(maxsize=256)
def _none_missed(names: tuple[str, ...], types: tuple[pl.DataType, ...]) -> pl.DataFrame:
    """Return no late rows, for rows with these columns.  Most steps of all operators have none."""
    none = np.empty(0, np.int64)
    rows = pl.DataFrame(schema=dict(zip(names, types, strict=True)))
    return _with_windows(rows, none, none, none)


def _with_windows(
    rows: pl.DataFrame, start_ms: Numbers, end_ms: Numbers, by_ms: Numbers
) -> pl.DataFrame:
    clashing = {name: f"{OWN}{name}" for name in (START, END, LATE_BY) if name in rows.columns}
    own = renamed(rows, clashing) if clashing else rows
    return own.hstack(
        [pl.Series(START, start_ms), pl.Series(END, end_ms), pl.Series(LATE_BY, by_ms)]
    )
