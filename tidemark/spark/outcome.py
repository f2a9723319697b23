"""The outcome of a log replay: one row that its task returns to the driver."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from tidemark.core.time.reached import Reached
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
    """One log replay: how far it read, the counts of its operators, the files it wrote.

    ``offset``: of the last segment.  ``sources``: by name, the position of each source.
    ``reached``: by name of a stage, how far its results are complete.
    """

    topic: str
    partition: int
    slice: int
    segments: int
    offset: int
    operators: dict[str, OperatorCounts]
    sources: dict[str, SourcePosition]
    files: list[WrittenFile]
    reached: dict[str, Reached] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, replay: LogReplay, files: Sequence[WrittenFile] = ()) -> "Outcome":
        """Return the outcome of a log replay that has read its whole range."""
        return cls(
            replay.log.topic,
            replay.log.number,
            replay.slice,
            replay.segments,
            replay.offset,
            replay.counts(),
            replay.reached,
            list(files),
            replay.progress(),
        )

    @property
    def log(self) -> Partition:
        """The log partition."""
        return Partition(self.topic, self.partition)


def encode_outcome(outcome: Outcome) -> bytes:
    """Encode an outcome as MessagePack."""
    return msgspec.msgpack.encode(outcome)


def outcome_batch(outcome: Outcome) -> pa.RecordBatch:
    """Return an outcome as a batch of one row: ``outcome`` (binary)."""
    return pa.RecordBatch.from_arrays(
        [pa.array([encode_outcome(outcome)], pa.binary())], schema=_SCHEMA
    )


def read_outcome(data: bytes) -> Outcome:
    """Decode an outcome."""
    return msgspec.msgpack.decode(data, type=Outcome)
