"""Progress of operators that feed others, as records: ``schemas/operator_progress.avsc``."""

from tidemark.core.time.announcer import TaskProgress
from tidemark.serde.avro import AvroType

_PROGRESS = AvroType.of_file("operator_progress")


def encode_progress(progress: TaskProgress) -> tuple[bytes, bytes]:
    """Return key and value of a record; the newest of a partition replaces the others."""
    return str(progress.partition).encode(), _PROGRESS.encode(progress._asdict())


def decode_progress(value: bytes) -> TaskProgress:
    """Return the progress in the value of a record.

    Raises:
        StateError: the bytes have another schema, or are damaged.
    """
    return TaskProgress(**_PROGRESS.decode(value))
