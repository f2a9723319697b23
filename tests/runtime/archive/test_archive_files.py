"""The archive: files by offset, whole or not there, that tell one history."""

import io
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
import pytest

from tidemark.core.time.segment import ROW_COLUMNS, Segment, SourceMark
from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.runtime.archive.archive import Archive, ArchivedSegment, ArchiveFile, covered, tiled
from tidemark.runtime.archive.task import _days
from tidemark.serde.segments import encode_segment

AT = Partition("game.by-player.log", 1)
DAY_MS = 86_400_000


def value(offset: int) -> bytes:
    """Return a segment as the log holds it."""
    rows = pl.DataFrame([[0, offset, 0, 1, 0]], schema=ROW_COLUMNS, orient="row")
    mark = SourceMark("moves/0", offset, offset + 1, 0, 1)
    return encode_segment(Segment(0, 0, (mark,), {"moves": 1}, 5, {"pops": rows}))


def segments(begin: int, end: int, at_ms: int = 0) -> list[ArchivedSegment]:
    return [ArchivedSegment(offset, at_ms, value(offset)) for offset in range(begin, end)]


def file(begin: int, end: int) -> ArchiveFile:
    return ArchiveFile("place", f"{begin}-{end}", AT, begin, end)


def test_segments_come_back_byte_for_byte(tmp_path):
    archive = Archive(str(tmp_path / "logs"))
    archive.write(AT, 3, 10, "topic-id", segments(4, 9))

    (found,) = archive.files(AT.topic)
    assert (found.at, found.begin, found.end) == (AT, 3, 10)
    assert archive.topic_id(found) == "topic-id"
    assert list(archive.read(found.path, 0, 100)) == [(n, value(n)) for n in range(4, 9)]
    assert [offset for offset, _ in archive.read(found.path, 5, 7)] == [5, 6]
    assert Path(found.path) == (
        tmp_path / "logs" / AT.topic / "date=1970-01-01" / f"{AT.number}-3-10.avro"
    )


class Requests(io.FileIO):
    """A file of which each read is a request."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        Requests.count += 1
        return super().read(-1 if size is None else size)


class Store:
    """Files as an object store has them: no reader buffers what it has not asked for."""

    def open_input_stream(self, path: str, buffer_size: int = 0) -> pa.NativeFile:
        stream = pa.PythonFile(Requests(path), mode="r")
        return pa.BufferedInputStream(stream, buffer_size) if buffer_size else stream


def test_a_file_is_read_in_few_requests(tmp_path, monkeypatch):
    archive = Archive(str(tmp_path))
    archive.write(AT, 0, 50, "", segments(0, 50))
    (found,) = archive.files(AT.topic)
    monkeypatch.setattr(archive, "_system", Store())

    assert len(list(archive.read(found.path, 0, 50))) == 50
    assert 0 < Requests.count <= 3


def test_any_avro_reader_reads_a_file(tmp_path):
    archive = Archive(str(tmp_path))
    archive.write(AT, 0, 1, "", segments(0, 1, 7))
    with open(archive.files(AT.topic)[0].path, "rb") as stream:
        records: list[Any] = list(fastavro.reader(stream))
    (record,) = records

    assert (record["offset"], record["timestamp_ms"]) == (0, 7)
    assert record["segment"]["sources"][0]["source"] == "moves/0"


def test_a_file_that_was_not_finished_is_none(tmp_path):
    folder = tmp_path / AT.topic / "date=2026-01-01"
    folder.mkdir(parents=True)
    (folder / ".1-0-5.avro").write_bytes(b"half")

    assert Archive(str(tmp_path)).files(AT.topic) == []


def test_files_are_of_one_day_each():
    days = [*segments(0, 2), *segments(2, 3, DAY_MS)]

    assert [[each.offset for each in day] for day in _days(days)] == [[0, 1], [2]]
    assert days[-1].date == "1970-01-02"


def test_a_damaged_file_is_named_with_the_last_offset_that_was_read(tmp_path):
    archive = Archive(str(tmp_path))
    archive.write(AT, 0, 2, "", segments(0, 2))
    path = archive.files(AT.topic)[0].path
    Path(path).write_bytes(Path(path).read_bytes()[:-40])

    with pytest.raises(StateError, match=r"1-0-2\.avro: cannot be read behind offset"):
        list(archive.read(path, 0, 2))


def test_overlapping_files_tell_one_history():
    files = [file(0, 5), file(3, 9), file(3, 7), file(9, 12), file(20, 30)]

    assert covered(files) == [(0, 12), (20, 30)]
    assert [(f.begin, f.end) for f in tiled(files, 2, 11)] == [(2, 5), (5, 9), (9, 11)]
    assert [(f.begin, f.end) for f in tiled(files, 0, 100)] == [(0, 5), (5, 9), (9, 12)]
    assert tiled(files, 15, 30) == []


def test_an_archive_without_a_place_is_refused():
    with pytest.raises(ConfigurationError, match="TIDEMARK_ARCHIVE is not set"):
        Archive("")
    with pytest.raises(ConfigurationError, match="archive nowhere://x"):
        Archive("nowhere://x")


def test_no_password_and_no_option_of_the_place_is_shown():
    with pytest.raises(ConfigurationError, match=r"URI: nowhere://key:[*]{3}@x") as raised:
        Archive("nowhere://key:hidden@x")
    assert "hidden" not in str(raised.value)
    assert str(Archive("s3://key:hidden@x/y?region=eu-west-1")) == "s3://key:***@x/y?region=***"
