"""An archive of log topics: Avro object container files that outlive Kafka's retention.

``PLACE/<log>/date=YYYY-MM-DD/PARTITION-BEGIN-END.avro`` holds the segments of a log partition from
one offset to another, exclusive, with the broker's time; its date is the broker's too, in UTC.  A
file appears whole.  Since a segment's offset says which one it is, files may overlap, of writers
that did not know of each other, and still tell one history: readers go by offset.

Any Avro tool reads them; the schema is that of a segment, with its offset and time beside it.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
from pyarrow import fs

from tidemark.errors import ConfigurationError, InfrastructureError, StateError, without_password
from tidemark.partition import Partition
from tidemark.serde.avro import schema_file
from tidemark.serde.segments import as_record, from_record

_NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.avro")
_TOPIC_ID = "tidemark.topic_id"
_BUFFER_BYTES = 2**20
_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "ArchivedSegment",
        "namespace": "tidemark",
        "fields": [
            {"name": "offset", "type": "long"},
            {"name": "timestamp_ms", "type": "long"},
            {"name": "segment", "type": schema_file("segment")},
        ],
    }
)


class ArchivedSegment(NamedTuple):
    """A segment on its way into an archive: its message's offset, time and value."""

    offset: int
    timestamp_ms: int
    value: bytes

    @property
    def date(self) -> str:
        """The day on which the broker took it, in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC).date().isoformat()


@dataclass(frozen=True)
class ArchiveFile:
    """A file, or what is wanted of it: some offsets of a log partition; ``end`` is exclusive."""

    place: str
    path: str
    at: Partition
    begin: int
    end: int


class ArchiveAwayError(InfrastructureError):
    """The archive cannot be reached now."""


class Archive:
    """A folder, or a URI that Arrow knows (s3, gs, hdfs, ...)."""

    def __init__(self, place: str) -> None:
        """Look for the place; it is made with the first file.

        Raises:
            ConfigurationError: it is empty, or Arrow knows no such file system.
        """
        if not place:
            raise ConfigurationError("TIDEMARK_ARCHIVE is not set: where is the archive?")
        self.place = place
        path = place if "://" in place else str(Path(place).absolute())
        try:
            self._system, self._root = fs.FileSystem.from_uri(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise ConfigurationError(self._said(error)) from None

    def __str__(self) -> str:
        return without_password(self.place)

    def _said(self, error: Exception) -> str:
        return without_password(self.place, f"archive {self.place}: {error}")

    def files(self, topic: str) -> list[ArchiveFile]:
        """Return the files of a log."""
        folder = f"{self._root}/{topic}"
        selector = fs.FileSelector(folder, allow_not_found=True, recursive=True)
        with self._reached():
            infos = self._system.get_file_info(selector)
        return [file for info in infos if (file := self._file(topic, info.path)) is not None]

    def _file(self, topic: str, path: str) -> ArchiveFile | None:
        name = _NAME.fullmatch(path.rpartition("/")[2])
        if name is None:
            return None
        number, begin, end = map(int, name.groups())
        return ArchiveFile(self.place, path, Partition(topic, number), begin, end)

    def topic_id(self, file: ArchiveFile) -> str:
        """Return the id of the topic that a file was written from."""
        with self._reached(), self._stream(file.path) as stream:
            metadata: Mapping[str, str] = fastavro.reader(stream).metadata
        return metadata.get(_TOPIC_ID, "")

    def write(
        self, at: Partition, begin: int, end: int, id_: str, of: Sequence[ArchivedSegment]
    ) -> None:
        """Write the segments of one day between two offsets as a file."""
        folder = f"{self._root}/{at.topic}/date={of[0].date}"
        name = f"{at.number}-{begin}-{end}.avro"
        half = f"{folder}/.{name}"
        with self._reached():
            self._system.create_dir(folder, recursive=True)
            with self._system.open_output_stream(half) as stream:
                records = (
                    {
                        "offset": each.offset,
                        "timestamp_ms": each.timestamp_ms,
                        "segment": as_record(each.value),
                    }
                    for each in of
                )
                metadata = {_TOPIC_ID: id_}
                fastavro.writer(stream, _SCHEMA, records, codec="deflate", metadata=metadata)
            self._to_disk(half)
            self._system.move(half, f"{folder}/{name}")
            self._to_disk(folder)

    def _to_disk(self, path: str) -> None:
        """Wait until the disk has a local file or folder."""
        if isinstance(self._system, fs.LocalFileSystem):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read(self, path: str, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield offsets and values of a file's segments from one offset to another, in order.

        Raises:
            StateError: the file is damaged; names it and the last offset read.
        """
        last = begin - 1
        try:
            with self._stream(path) as stream:
                records: Iterator[Any] = iter(fastavro.reader(stream, reader_schema=_SCHEMA))
                for record in records:
                    last = record["offset"]
                    if begin <= last < end:
                        yield last, from_record(record["segment"])
        except (OSError, ValueError, EOFError, IndexError, KeyError, TypeError) as error:
            raise StateError(f"{path}: cannot be read behind offset {last}: {error}") from error

    def _stream(self, path: str) -> pa.NativeFile:
        """Open a file; Avro's small reads are no requests of their own."""
        return self._system.open_input_stream(path, buffer_size=_BUFFER_BYTES)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ArchiveAwayError(self._said(error)) from error


def covered(files: Sequence[ArchiveFile]) -> list[tuple[int, int]]:
    """Return the ranges of offsets that files of one log partition cover together, in order."""
    ranges: list[tuple[int, int]] = []
    for begin, end in sorted((file.begin, file.end) for file in files):
        if ranges and begin <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
        else:
            ranges.append((begin, end))
    return ranges


def tiled(files: Sequence[ArchiveFile], begin: int, end: int) -> list[ArchiveFile]:
    """Cut files of one log partition to ranges without gap and overlap, from ``begin`` on.

    As far as they go, at most to ``end``.
    """
    tiles = []
    reached = begin
    while reached < end:
        fitting = [file for file in files if file.begin <= reached < file.end]
        if not fitting:
            break
        file = max(fitting, key=lambda each: each.end)
        upto = min(file.end, end)
        tiles.append(replace(file, begin=reached, end=upto))
        reached = upto
    return tiles
