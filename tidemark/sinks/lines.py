"""A sink to JSON lines: unchanged records, exactly once, in ``<folder>/<table>-N.jsonl``.

N is the partition.  ``.<table>-N.position`` beside it has the next offset and the length of the
file up to there.  It is replaced by a rename once the lines are on disk.  Lines behind that length,
left by a crash, are cut off before the next write.  A new generation empties the file.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks.folder import classified, exclusive, file_names
from tidemark.sinks.sink import Batch, OvertakenError, Position, Reload, TablesStoppedError
from tidemark.sinks.table import Table, avro_reasons


class _PositionFile(msgspec.Struct, frozen=True):
    next_offset: int
    bytes: int
    topic_id: str
    generation: int = 0

    @property
    def position(self) -> Position:
        return Position(self.next_offset, self.topic_id, self.generation)


class LinesSink:
    """A folder of files with one JSON object per line."""

    every_ms = 0

    def __init__(self, folder: Path) -> None:
        """``folder``: created if it does not exist."""
        self._folder = folder
        self._tables: dict[str, Table] = {}

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create the folder.

        Raises:
            ConfigurationError: it cannot be created.
            TablesStoppedError: a name is too long, or some topics do not hold JSON.
        """
        reasons = file_names(_longest).problems(tables)
        reasons |= avro_reasons(tables, "JSON lines hold only JSON")
        ready = [table for table in tables if table.name not in reasons]
        self._tables = {table.topic: table for table in ready}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for table in ready:
                for number in range(table.partitions):
                    self._cut(Partition(table.topic, number))
        except OSError as error:
            raise ConfigurationError(f"folder {self._folder}: {error.strerror}") from error
        if reasons:
            raise TablesStoppedError(reasons)

    def _cut(self, at: Partition) -> None:
        """Cut off the lines behind the position; a crash has left them."""
        path = self._path(at, ".jsonl")
        if not path.exists():
            return
        with exclusive(self._path(at, ".lock", ".")):
            written = self._written(at)
            if written is not None and path.stat().st_size > written.bytes:
                os.truncate(path, written.bytes)

    def _path(self, at: Partition, suffix: str, prefix: str = "") -> Path:
        return self._folder / f"{prefix}{self._tables[at.topic].name}-{at.number}{suffix}"

    def _written(self, at: Partition) -> _PositionFile | None:
        """Return what the position file says; None if its lines are not there any more."""
        path, lines = self._path(at, ".position", "."), self._path(at, ".jsonl")
        if not path.exists():
            return None
        written = msgspec.json.decode(path.read_bytes(), type=_PositionFile)
        size = lines.stat().st_size if lines.exists() else 0
        return written if size >= written.bytes else None

    def positions(self, partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return the positions of partitions, without those that have none."""
        known = {at: self._written(at) for at in partitions}
        return {at: written.position for at, written in known.items() if written is not None}

    def reload(self, reloads: Sequence[Reload]) -> None:
        """Empty files and set their positions, one partition after the other."""
        try:
            for each in reloads:
                for at, position in each.positions.items():
                    with exclusive(self._path(at, ".lock", ".")):
                        self._begin(at, position, empties=each.empties)
        except OSError as error:
            raise classified(self._folder, error) from error

    def _begin(self, at: Partition, position: Position, *, empties: bool) -> None:
        past, path = self._written(at), self._path(at, ".jsonl")
        if past is not None and past.position.is_of(position):
            return  # another process was first
        size = path.stat().st_size if path.exists() and not empties else 0
        self._note(at, _PositionFile(position.next_offset, size, *position[1:]))
        if path.exists():
            os.truncate(path, size)

    def write(self, batches: Sequence[Batch]) -> None:
        """Append the lines of each batch."""
        try:
            for batch in batches:
                with exclusive(self._path(batch.partition, ".lock", ".")):
                    self._append(batch)
        except OSError as error:
            raise classified(self._folder, error) from error

    def _append(self, batch: Batch) -> None:
        at, (begin, end, topic_id) = batch.partition, batch.move
        past = self._written(at)
        if (past and past.next_offset) != begin:
            raise OvertakenError(
                f"{at}: another process has written it beyond {begin or 'its start'}"
            )
        with self._path(at, ".jsonl").open("ab") as file:
            file.truncate(past.bytes if past else 0)
            file.seek(0, os.SEEK_END)
            file.writelines(value + b"\n" for value in batch.values)
            file.flush()
            os.fsync(file.fileno())
            written = _PositionFile(end, file.tell(), topic_id, past.generation if past else 0)
        self._note(at, written)

    def _note(self, at: Partition, written: _PositionFile) -> None:
        half = self._path(at, ".half", ".")
        half.write_bytes(msgspec.json.encode(written))
        os.replace(half, self._path(at, ".position", "."))

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _longest(table: Table) -> tuple[str]:
    return (f".{table.name}-{table.partitions}.position",)
