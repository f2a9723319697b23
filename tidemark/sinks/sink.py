"""The sink protocol: a sink takes rows of tables, and may keep the position of each partition.

A sink that writes rows and positions in one transaction delivers exactly once, through any crash,
rebalance or second process.  A sink without positions starts at the offsets committed in Kafka, and
delivers at least once.

A sink that can load a table again (``Reloads``) holds what its topic says, even after a reset: the
rows of an older generation, or of a topic that was deleted, go.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import polars as pl

from tidemark.core.windows.pane import RETRACTED
from tidemark.errors import ConfigurationError, InfrastructureError
from tidemark.partition import Partition
from tidemark.sinks.table import Table


class UnavailableError(InfrastructureError):
    """The sink cannot be reached or is busy; the same batches are written again later."""


class TablesStoppedError(ConfigurationError):
    """Some tables cannot be delivered until a person acts; all others can.

    From ``prepare``, the others are ready.  From ``write``, no row of any batch was taken.
    ``reasons``: what is wrong and what helps, by name of the table.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        """``reasons``: see above."""
        super().__init__("; ".join(reasons.values()))
        self.reasons = reasons


class RefusedError(InfrastructureError):
    """The sink can never take some row of a batch; says why.  It has taken no row of any batch.

    ``rows``: index and reason of each row of a batch that it can never take, by partition; empty if
    it does not know which.
    """

    def __init__(
        self, reason: str, rows: Mapping[Partition, Mapping[int, str]] | None = None
    ) -> None:
        """``reason``: of some row."""
        super().__init__(reason)
        self.rows = rows or {}


class OvertakenError(InfrastructureError):
    """Another process has written the partition; the records of this process are outdated."""


class Position(NamedTuple):
    """The sink's position in a partition: the next offset, and the records that its rows are of.

    ``topic_id``: the id of the topic.  ``generation``: the number of the generation of results
    (docs/operations.md, "Generations").
    """

    next_offset: int
    topic_id: str
    generation: int = 0

    def is_of(self, other: "Position") -> bool:
        """Return whether both are positions in the same generation of the same topic."""
        return self[1:] == other[1:]


class Move(NamedTuple):
    """The move of a partition's position by a batch, from ``begin`` to ``end``, exclusive.

    ``begin``: the sink's position before, None if it has none.
    """

    begin: int | None
    end: int
    topic_id: str


@dataclass(frozen=True)
class Batch:
    """Consecutive records of one partition of a table's topic.

    ``rows``: the table's columns, for panes also RETRACTED, in the order of the topic.
    ``keys``, ``values``: the records as they are in the topic, one per row.  ``generation``: number
    of the generation of results that the records are of.
    """

    table: Table
    partition: Partition
    move: Move
    rows: pl.DataFrame
    offsets: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes]
    generation: int = 0

    def newest(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the retracted windows with their revision, and the last row of each key.

        The sink must delete withdrawn windows first: rows that come after a withdrawal stay.
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
        """Return the part of the batch from ``offset`` on, None if nothing is left."""
        if offset >= self.move.end:
            return None
        first = bisect_left(self.offsets, offset)
        return self._part(slice(first, None), self.move._replace(begin=offset))

    def halves(self) -> "tuple[Batch, Batch]":
        """Return the two halves of the batch, in order."""
        middle = len(self.offsets) // 2
        cut = self.offsets[middle]
        return (
            self._part(slice(0, middle), self.move._replace(end=cut)),
            self._part(slice(middle, None), self.move._replace(begin=cut)),
        )

    def without(self, indices: Collection[int]) -> "Batch":
        """Return the batch with its move, but without some rows."""
        gone = set(indices)
        kept = [index for index in range(len(self.offsets)) if index not in gone]
        return replace(
            self,
            rows=self.rows[kept],
            offsets=[self.offsets[index] for index in kept],
            keys=[self.keys[index] for index in kept],
            values=[self.values[index] for index in kept],
        )

    def _part(self, part: slice, move: Move) -> "Batch":
        return replace(
            self,
            move=move,
            rows=self.rows[part],
            offsets=self.offsets[part],
            keys=self.keys[part],
            values=self.values[part],
        )


@dataclass(frozen=True)
class Reload:
    """A table to load again.

    ``positions``: of all partitions of its topic, where the present records begin.  ``empties``:
    whether its rows are of other records, and must go.
    """

    table: Table
    positions: Mapping[Partition, Position]
    empties: bool


@runtime_checkable
class Reloads(Protocol):
    """A sink that keeps positions and can load a table again."""

    def reload(self, reloads: Sequence[Reload]) -> None:
        """Delete the rows of tables that must go and set all positions, in one transaction.

        Another process may have done the same and gone on.  So the call leaves a table alone whose
        positions are all of the generation and topic already.

        Raises:
            UnavailableError: the sink is away; the call is repeated.
        """


class Sink(Protocol):
    """A place that takes rows; users implement it for other systems.  One thread calls it."""

    every_ms: int
    """Shortest time between two writes in ms; larger if each write makes a file."""

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create what the tables need, or check what exists.

        Raises:
            ConfigurationError: what exists cannot take the rows; of some tables if it is a
                TablesStoppedError.
            UnavailableError: the sink is away; the call is repeated.
        """

    def positions(self, partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return the positions of partitions, without those that have none."""

    def write(self, batches: Sequence[Batch]) -> None:
        """Write rows and moves; of each batch both or neither.

        Raises:
            UnavailableError: the sink is away; all batches come again, also those it has taken.
            RefusedError: the sink can never take some row.
            TablesStoppedError: some tables cannot be written.
            OvertakenError: a partition's position is not the begin of its batch.
        """

    def close(self) -> None:
        """Release connections and files."""
