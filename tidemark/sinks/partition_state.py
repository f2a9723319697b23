"""One partition that a sink process owns: the sink's position, and the records to write."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidemark.partition import Partition
from tidemark.runtime.messages.received import ReceivedMessage
from tidemark.sinks.rows import DecodedRows, decode
from tidemark.sinks.sink import Batch, Move, Position
from tidemark.sinks.table import Table


@dataclass
class PartitionState:
    """The state of a partition.

    Attributes:
        begin: where the records begin that the partition has now.
        next_offset: behind the last record delivered.
        known: the same by the sink's own account, None if it has no position.
        held: records that are not decoded yet.
        batch: records that are decoded and not written yet.
        committed: the offset that the group has.
    """

    begin: Position
    next_offset: int
    known: int | None
    held: list[ReceivedMessage] = field(default_factory=list)
    batch: Batch | None = None
    committed: int = -1

    def let_go(self) -> None:
        """Forget the records that are not written."""
        self.held, self.batch = [], None

    def decoded(self, table: Table) -> DecodedRows:
        """Return the rows of the records held."""
        return decode(table, [record.value() for record in self.held])

    def hold(self, table: Table, at: Partition, decoded: DecodedRows) -> Batch:
        """Return the records held as a batch, which they become."""
        records, self.held = self.held, []
        good: Sequence[ReceivedMessage] = [records[index] for index in decoded.good]
        self.batch = Batch(
            table,
            at,
            Move(self.known, (records[-1].offset() or 0) + 1, self.begin.topic_id),
            decoded.rows,
            [record.offset() or 0 for record in good],
            [record.key() for record in good],
            [record.value() or b"" for record in good],
            self.begin.generation,
        )
        return self.batch
