"""What a task tells the driver of a unit: one row, however much it wrote."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from tidemark.partition import Partition
from tidemark.spark.log_replay import LogReplay, OperatorCounts, SourcePosition

__all__ = [
    "DDL",
    "Outcome",
    "SourcePosition",
    "WrittenFile",
    "encode_outcome",
    "outcome_batch",
    "read_outcome",
]

DDL = "outcome binary"
_SCHEMA = pa.schema([("outcome", pa.binary())])


class WrittenFile(msgspec.Struct, frozen=True):
    """A file of results; ``path`` is below the replay's folder."""

    path: str
    operator: str
    kind: str  # "panes" | "late"
    rows: int


class Outcome(msgspec.Struct, frozen=True):
    """One unit: how far it read, what its operators did, which files hold the results.

    ``sources``: by name, how far each of them was told of.
    """

    topic: str
    partition: int
    slice: int
    segments: int
    offset: int
    operators: dict[str, OperatorCounts]
    sources: dict[str, SourcePosition]
    files: list[WrittenFile]

    @classmethod
    def of(cls, unit: LogReplay, files: Sequence[WrittenFile] = ()) -> "Outcome":
        """Tell of a unit that has read all."""
        return cls(
            unit.log.topic,
            unit.log.number,
            unit.slice,
            unit.segments,
            unit.offset,
            unit.counts(),
            unit.reached,
            list(files),
        )

    @property
    def log(self) -> Partition:
        """The log partition."""
        return Partition(self.topic, self.partition)


def encode_outcome(outcome: Outcome) -> bytes:
    """Write what became of a unit."""
    return msgspec.msgpack.encode(outcome)


def outcome_batch(outcome: Outcome) -> pa.RecordBatch:
    """Return the row of a unit."""
    return pa.RecordBatch.from_arrays(
        [pa.array([encode_outcome(outcome)], pa.binary())], schema=_SCHEMA
    )


def read_outcome(data: bytes) -> Outcome:
    """Read a row."""
    return msgspec.msgpack.decode(data, type=Outcome)
