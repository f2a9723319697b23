"""What a sink is: a place that takes the rows of tables and remembers how far each topic got.

A sink that keeps rows and positions in one transaction delivers exactly once, through any crash,
rebalance or second process.  One that remembers no positions is told where to start by the offsets
committed in Kafka, and delivers at least once.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import polars as pl

from tidemark.core.windows.pane import RETRACTED
from tidemark.errors import InfrastructureError
from tidemark.partition import Partition
from tidemark.sinks.table import Table


class UnavailableError(InfrastructureError):
    """The sink can't be reached or is busy: the same batch will be written again later."""


class RefusedError(InfrastructureError):
    """The sink can never take some row of a batch; says why.  Nothing of the batch was taken."""


class OvertakenError(InfrastructureError):
    """Another process wrote the same partition: what this one read is no longer wanted."""


class Position(NamedTuple):
    """How far a partition was written: the next offset, and the id of its topic."""

    next_offset: int
    topic_id: str


class Move(NamedTuple):
    """How a batch moves a partition: from the position that the sink knows to the one behind it.

    ``begin``: None where the sink knows none.
    """

    begin: int | None
    end: int
    topic_id: str


@dataclass(frozen=True)
class Batch:
    """Consecutive records of one partition of a table's topic.

    ``rows``: in the order of the topic; panes have RETRACTED besides the table's columns.
    ``keys``, ``values``: the records as they are in the topic, one a row.
    """

    table: Table
    partition: Partition
    move: Move
    rows: pl.DataFrame
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes]

    def newest(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return windows withdrawn, with the revision, and then the last row of each key.

        What was there of a withdrawn window goes first; rows of it that come later stay.
        """
        table, rows = self.table, self.rows
        if not table.has_panes:
            return rows.clear(), rows.unique(table.key, keep="last", maintain_order=True)
        gone = pl.col(RETRACTED)
        withdrawn = rows.filter(gone).unique(table.window, keep="last", maintain_order=True)
        if withdrawn.height:
            later = gone.reverse().cum_sum().reverse().over(table.window) == 0
            rows = rows.filter(later)
        kept = rows.unique(table.key, keep="last", maintain_order=True)
        return withdrawn, kept.drop(RETRACTED)

    def behind(self, offset: int) -> "Batch | None":
        """Return what is left where the sink has moved to ``offset``; None if that is nothing."""
        if offset >= self.move.end:
            return None
        first = bisect_left(self.offsets, offset)
        return self._part(slice(first, None), self.move._replace(begin=offset))

    def halves(self) -> "tuple[Batch, Batch]":
        """Return the batch as two, one behind the other."""
        middle = len(self.offsets) // 2
        cut = self.offsets[middle]
        return (
            self._part(slice(0, middle), self.move._replace(end=cut)),
            self._part(slice(middle, None), self.move._replace(begin=cut)),
        )

    def without_rows(self) -> "Batch":
        """Return the move alone."""
        return self._part(slice(0, 0), self.move)

    def _part(self, part: slice, move: Move) -> "Batch":
        return replace(
            self,
            move=move,
            rows=self.rows[part],
            offsets=self.offsets[part],
            keys=self.keys[part],
            values=self.values[part],
        )


class Sink(Protocol):
    """What a user writes to deliver somewhere else; called by one thread."""

    every_ms: int
    """Least time between two writes: more where each costs a file."""

    def prepare(self, tables: Sequence[Table]) -> None:
        """Make what the tables need, or check what is there.

        Raises:
            ConfigurationError: what is there cannot take the rows.
            UnavailableError: try again later.
        """

    def positions(self, partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return how far each partition was written, for those that were."""

    def write(self, batches: Sequence[Batch]) -> None:
        """Take rows and moves, of each batch both or neither.

        Raises:
            UnavailableError: try again; batches that were taken will come again.
            RefusedError: there is a row that can never be taken.
            OvertakenError: a partition is not where its batch begins.
        """

    def close(self) -> None:
        """Let go of what it holds."""
