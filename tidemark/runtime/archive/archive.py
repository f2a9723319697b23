"""An archive of log topics: Avro object container files that outlive Kafka's retention.

``PLACE/<log>/date=YYYY-MM-DD/PARTITION-BEGIN-END.avro`` holds the segments of a log partition from
offset BEGIN to END, exclusive, with the broker's time.  The date is that of the broker's time, in
UTC.  A file appears complete.

Two writers that do not know of each other may write overlapping files.  Readers go by offset, which
identifies a segment, so such files still give one history.

Any Avro tool can read the files.  The schema is that of a segment, plus its offset and time.
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
    """A segment to archive: offset, broker time (ms UTC) and value of its message."""

    offset: int
    timestamp_ms: int
    value: bytes

    @property
    def date(self) -> str:
        """The UTC date of the broker's time, as YYYY-MM-DD."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC).date().isoformat()


@dataclass(frozen=True)
class ArchiveFile:
    """A file, or the part of a file to read: offsets ``begin`` to ``end``, exclusive."""

    place: str
    path: str
    at: Partition
    begin: int
    end: int


class ArchiveAwayError(InfrastructureError):
    """The archive cannot be reached; a restart may help."""


class Archive:
    """An archive in a folder, or at a URI that Arrow knows (s3, gs, hdfs, ...)."""

    def __init__(self, place: str) -> None:
        """Find the file system of ``place``; the first file creates the folder.

        Raises:
            ConfigurationError: ``place`` is empty, or Arrow knows no such file system.
        """
        if not place:
            raise ConfigurationError(
                "TIDEMARK_ARCHIVE is not set: set it to a folder or a URI such as s3://bucket/logs"
            )
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
        """Return the files of a log topic, in no order."""
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
        """Return the id of the topic that a file was written from, empty if the file has none."""
        with self._reached(), self._stream(file.path) as stream:
            metadata: Mapping[str, str] = fastavro.reader(stream).metadata
        return metadata.get(_TOPIC_ID, "")

    def write(
        self, at: Partition, begin: int, end: int, id_: str, of: Sequence[ArchivedSegment]
    ) -> None:
        """Write segments of one date to a file; ``end``: exclusive; ``id_``: of the topic."""
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
        """Flush a file or folder to disk, if the archive is local."""
        if isinstance(self._system, fs.LocalFileSystem):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read(self, path: str, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield offset and value of a file's segments from ``begin`` to ``end``, in order.

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
        """Open a file with a buffer, so that Avro's small reads are not separate requests."""
        return self._system.open_input_stream(path, buffer_size=_BUFFER_BYTES)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ArchiveAwayError(self._said(error)) from error


def covered(files: Sequence[ArchiveFile]) -> list[tuple[int, int]]:
    """Return the offset ranges that files of one log partition cover together, in order."""
    ranges: list[tuple[int, int]] = []
    for begin, end in sorted((file.begin, file.end) for file in files):
        if ranges and begin <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(end, ranges[-1][1])
        else:
            ranges.append((begin, end))
    return ranges


def tiled(files: Sequence[ArchiveFile], begin: int, end: int) -> list[ArchiveFile]:
    """Return parts of files that cover one log partition from ``begin`` on, without overlap.

    The parts end at ``end``, or earlier at the first gap.
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
