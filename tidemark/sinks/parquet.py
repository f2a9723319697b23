"""A sink to Parquet files: every row of every topic, exactly once, in ``<folder>/<table>/``.

``PARTITION-BEGIN-END.parquet`` holds the rows of one write from one partition.  A rename makes it
appear complete, so the file names are the positions: an existing file is written, and writing it
again changes nothing.

``.PARTITION.begin`` says where the present generation begins.  When a generation begins, the files
of the one before are deleted.

Panes are not replaced here.  The row with the highest revision counts for its window; if that row
is a withdrawal, the window has no result.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import polars as pl
import pyarrow.parquet as pq

from tidemark.partition import Partition
from tidemark.sinks.folder import classified, exclusive, file_names
from tidemark.sinks.sink import Batch, OvertakenError, Position, Reload, TablesStoppedError
from tidemark.sinks.table import Table

_NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.parquet")
_TOPIC_ID = b"tidemark.topic_id"
_OFFSET = "topic_offset"


class _Begin(msgspec.Struct, frozen=True):
    """Where a generation begins; ``empties``: older files are still to be deleted."""

    next_offset: int
    topic_id: str
    generation: int
    empties: bool = False


class ParquetSink:
    """A folder of Parquet files."""

    every_ms = 10_000  # fewer and larger files: a file pays from some thousand rows on

    def __init__(self, folder: Path) -> None:
        """``folder``: created if it does not exist."""
        self._folder = folder
        self._tables: dict[str, Table] = {}

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create a folder for each table.

        Raises:
            TablesStoppedError: a folder cannot be created, or a table has a column _OFFSET.
        """
        reasons = file_names(lambda table: (table.name,)).problems(tables)
        self._tables = {each.topic: each for each in tables if each.name not in reasons}
        for table in self._tables.values():
            if _OFFSET in table.columns:
                reasons[table.name] = (
                    f"{table.topic}: the sink adds a column {_OFFSET}; rename the output's column"
                )
                continue
            folder = self._folder_of(table)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for number in range(table.partitions):
                    self._finish(Partition(table.topic, number))
            except OSError as error:
                reasons[table.name] = f"folder {folder}: {error.strerror}"
        if reasons:
            raise TablesStoppedError(reasons)

    def _folder_of(self, table: Table) -> Path:
        return self._folder / table.name

    def positions(self, partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return the end of the last file of each partition that has files."""
        found = {}
        for at in partitions:
            begin, newest = self._begun(at), max(self._files(at), default=None)
            if newest is not None:
                end, path = newest
                topic_id = (pq.read_schema(path).metadata or {}).get(_TOPIC_ID, b"").decode()
                found[at] = Position(end, topic_id, begin.generation if begin else 0)
            elif begin is not None:
                found[at] = Position(begin.next_offset, begin.topic_id, begin.generation)
        return found

    def _begun(self, at: Partition) -> _Begin | None:
        path = self._begin_path(at)
        return msgspec.json.decode(path.read_bytes(), type=_Begin) if path.exists() else None

    def _begin_path(self, at: Partition) -> Path:
        return self._folder_of(self._tables[at.topic]) / f".{at.number}.begin"

    def reload(self, reloads: Sequence[Reload]) -> None:
        """Delete files and set positions, one partition after the other."""
        try:
            for each in reloads:
                for at, position in each.positions.items():
                    with self._exclusive(at):
                        known = self.positions([at]).get(at)
                        if known is None or not known.is_of(position):
                            self._note(at, _Begin(*position, empties=each.empties))
                    self._finish(at)
        except OSError as error:
            raise classified(self._folder, error) from error

    def _finish(self, at: Partition) -> None:
        """Delete the files of the generation before, if that is not done."""
        begin = self._begun(at)
        if begin is None or not begin.empties:
            return
        with self._exclusive(at):
            begin = self._begun(at)
            if begin is not None and begin.empties:
                for _, path in list(self._files(at)):
                    path.unlink()
                self._note(at, msgspec.structs.replace(begin, empties=False))

    def _note(self, at: Partition, begin: _Begin) -> None:
        path = self._begin_path(at)
        half = path.with_suffix(".half")
        half.write_bytes(msgspec.json.encode(begin))
        os.replace(half, path)
        _to_disk(path.parent)

    def _exclusive(self, at: Partition) -> AbstractContextManager[None]:
        return exclusive(self._folder_of(self._tables[at.topic]) / f".{at.number}.lock")

    def _files(self, at: Partition) -> Iterable[tuple[int, Path]]:
        for path in self._folder_of(self._tables[at.topic]).iterdir():
            name = _NAME.fullmatch(path.name)
            if name and int(name[1]) == at.number:
                yield int(name[3]), path

    def write(self, batches: Sequence[Batch]) -> None:
        """Write one file per batch."""
        try:
            for batch in batches:
                self._write(batch)
        except OSError as error:
            raise classified(self._folder, error) from error

    def _write(self, batch: Batch) -> None:
        at, (begin, end, topic_id) = batch.partition, batch.move
        folder = self._folder_of(batch.table)
        self._finish(at)
        with self._exclusive(at):
            known = self.positions([at]).get(at)
            written = known.next_offset if known else None
            if written != begin:
                raise OvertakenError(f"{at}: files end at offset {written}, not at {begin}")
            name = f"{at.number}-{begin or 0}-{end}.parquet"
            rows = batch.rows.with_columns(pl.Series(_OFFSET, batch.offsets, pl.Int64))
            table = rows.to_arrow()
            half = folder / f".{name}"
            metadata = {**(table.schema.metadata or {}), _TOPIC_ID: topic_id.encode()}
            pq.write_table(table.replace_schema_metadata(metadata), half, compression="zstd")
            _to_disk(half)
            os.replace(half, folder / name)
            _to_disk(folder)

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
