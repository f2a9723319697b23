"""A sink to Parquet files: every row of every topic, exactly once, in ``<folder>/<table>/``.

``PARTITION-BEGIN-END.parquet`` holds the rows of one write from one partition.  A rename makes it
appear complete, so the file names are the positions: an existing file is written, and writing it
again changes nothing.

Panes are not replaced here.  The row with the highest revision counts for its window; if that row
is a withdrawal, the window has no result.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks.folder import classified, exclusive, file_names
from tidemark.sinks.sink import Batch, OvertakenError, Position
from tidemark.sinks.table import Table

_NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.parquet")
_TOPIC_ID = b"tidemark.topic_id"
_OFFSET = "topic_offset"


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
            ConfigurationError: a folder cannot be created, or a table has a column _OFFSET.
        """
        file_names(lambda table: (table.name,)).require(tables)
        self._tables = {table.topic: table for table in tables}
        for table in tables:
            folder = self._folder_of(table)
            if _OFFSET in table.columns:
                raise ConfigurationError(
                    f"{table.topic}: the sink adds a column {_OFFSET}; rename the output's column"
                )
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(f"folder {folder}: {error.strerror}") from error

    def _folder_of(self, table: Table) -> Path:
        return self._folder / table.name

    def positions(self, partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return the end of the last file of each partition that has files."""
        found = {}
        for at in partitions:
            newest = max(self._files(at), default=None)
            if newest is not None:
                end, path = newest
                schema = pq.read_schema(path)
                found[at] = Position(end, (schema.metadata or {}).get(_TOPIC_ID, b"").decode())
        return found

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
        with exclusive(folder / f".{at.number}.lock"):
            written = max((last for last, _ in self._files(at)), default=None)
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
