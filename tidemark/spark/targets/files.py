"""Results as Parquet files.  Each task writes its own files; no result passes the driver.

``DIR/<operator>/<port>``, such as ``panes`` and ``late``, holds a file per log partition and
key-group slice.  A file has every column of the live topic.  Two more columns name the segment
that published the row: ``log_partition`` (int32) and ``log_offset`` (int64).

A task that Spark runs twice writes twice, under different names.  Each outcome names the files of
its task.  The driver removes all other files, then writes ``_SUCCESS``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark import TaskContext

from tidemark.core.operators.ports import Port
from tidemark.errors import ConfigurationError, StateError, without_password
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.spark.log_replay import LogReplay, SegmentOutput
from tidemark.spark.outcome import DDL, Outcome, WrittenFile, outcome_batch
from tidemark.spark.read.ranges import Ranges
from tidemark.spark.read.segment_rows import Batches
from tidemark.spark.work import ResultWriter

SUCCESS = "_SUCCESS"


class FolderInfo(msgspec.Struct, frozen=True):
    """The content of ``_SUCCESS``: the program and the log ranges of a folder of results.

    ``logs``: first offset and end by log partition.  ``operators``: by operator and port, the
    columns that identify a result.
    """

    pipeline: str
    fingerprint: str
    logs: dict[str, tuple[int, int]]
    operators: dict[str, dict[str, tuple[str, ...]]]
    files: list[str] = []


_BUFFER_BYTES = 64 * 2**20
_LAYOUT = pl.CompatLevel.oldest()
_PLACE = {"log_partition": pl.Int32(), "log_offset": pl.Int64()}


@dataclass(frozen=True)
class Files:
    """Parquet files below ``folder``: a path, or a URI that Arrow knows (s3, gs, hdfs, ...)."""

    folder: str
    run: str
    ddl: str = DDL

    def open(self, replay: LogReplay) -> ResultWriter:
        """Return a writer for the files of a log replay."""
        task = TaskContext.get()
        attempt = 0 if task is None else task.taskAttemptId()
        name = f"{replay.log.number:05}-{replay.slice:03}-{self.run}-{attempt}.parquet"
        return _FilesWriter(*opened(self.folder), name, replay)

    def prepare(self) -> None:
        """Create the folder.

        Raises:
            ConfigurationError: the folder is not empty, or Arrow cannot reach it.
        """
        system, path = opened(self.folder)
        if system.get_file_info(path).type == fs.FileType.File or _files(system, path):
            shown = without_password(self.folder)
            raise ConfigurationError(
                f"{shown} is not empty: a replay writes only to an empty folder"
            )
        system.create_dir(path, recursive=True)

    def complete(self, outcomes: Iterable[Outcome], plan: Plan, ranges: Ranges) -> None:
        """Remove the files of failed attempts; write ``_SUCCESS``."""
        system, path = opened(self.folder)
        names = sorted(file.path for outcome in outcomes for file in outcome.files)
        wanted = {f"{path}/{name}" for name in names}
        for found in _files(system, path):
            if found not in wanted:
                system.delete_file(found)
        with system.open_output_stream(f"{path}/{SUCCESS}") as file:
            file.write(msgspec.json.encode(_info(plan, ranges, names)))

    def discard(self) -> None:
        """Remove the files of a failed replay."""
        system, path = opened(self.folder)
        system.delete_dir_contents(path, missing_dir_ok=True)


def opened(folder: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder, and its path there.

    Raises:
        ConfigurationError: Arrow does not know the file system.
    """
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(
            folder if "://" in folder else str(Path(folder).absolute())
        )
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigurationError(without_password(folder, f"{folder}: {error}")) from None
    return found


def _files(system: fs.FileSystem, path: str) -> list[str]:
    selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
    return [info.path for info in system.get_file_info(selector) if info.is_file]


@dataclass
class _OpenFile:
    """A file that a task is writing, of one operator and port."""

    operator: str
    kind: str
    schema: dict[str, pl.DataType]
    frames: list[pl.DataFrame] = field(default_factory=list)
    rows: int = 0
    writer: pq.ParquetWriter | None = None


@dataclass
class _FilesWriter:
    """Writes the files of one log replay."""

    system: fs.FileSystem
    folder: str
    name: str
    replay: LogReplay
    _tables: dict[tuple[str, str], _OpenFile] = field(default_factory=dict)
    _bytes: int = 0

    def take(self, output: SegmentOutput) -> Batches:
        """Buffer results; write them once they exceed the size of the buffer."""
        for each in output.plan.published:
            name = each.port.name
            rows = output.frames.get(name)
            if rows is not None and rows.height:
                self._add(output.plan, each.port, rows, output.offsets[name])
        if self._bytes > _BUFFER_BYTES:
            self._flush()
        return iter(())

    def _add(
        self,
        plan: OperatorPlan,
        port: Port,
        rows: pl.DataFrame,
        offset: npt.NDArray[np.int64],
    ) -> None:
        schema = {**port.columns, **_PLACE}
        at = (plan.name, port.name)
        table = self._tables.setdefault(at, _OpenFile(plan.name, port.name, schema))
        shown = port.published(rows).with_columns(
            pl.lit(self.replay.log.number, _PLACE["log_partition"]).alias("log_partition"),
            pl.Series("log_offset", offset),
        )
        table.frames.append(_cast(shown.select(*table.schema), table))
        self._bytes += int(shown.estimated_size())

    def _flush(self) -> None:
        for table in self._tables.values():
            if table.frames:
                self._write(table)
        self._bytes = 0

    def _write(self, table: _OpenFile) -> None:
        rows = pl.concat(table.frames).to_arrow(compat_level=_LAYOUT)
        table.frames.clear()
        table.rows += rows.num_rows
        if table.writer is None:
            folder = f"{self.folder}/{table.operator}/{table.kind}"
            self.system.create_dir(folder, recursive=True)
            table.writer = pq.ParquetWriter(
                f"{folder}/{self.name}", rows.schema, filesystem=self.system, compression="zstd"
            )
        table.writer.write_table(rows)

    def finish(self, replay: LogReplay) -> Batches:
        """Close the files; yield the outcome, which names them."""
        self._flush()
        written = []
        for table in self._tables.values():
            assert table.writer is not None
            table.writer.close()
            path = f"{table.operator}/{table.kind}/{self.name}"
            written.append(WrittenFile(path, table.operator, table.kind, table.rows))
        yield outcome_batch(Outcome.of(replay, written))


def _info(of: Plan, ranges: Ranges, files: list[str]) -> FolderInfo:
    logs = {str(at): (ranges.begins[at], ranges.ends[at]) for at in ranges.partitions}
    operators = {
        plan.name: {each.port.name: each.port.identity for each in plan.published}
        for plan in of.operators
    }
    return FolderInfo(of.pipeline, of.fingerprint, logs, operators, files)


def _cast(rows: pl.DataFrame, table: _OpenFile) -> pl.DataFrame:
    """Cast columns to their declared types.

    Raises:
        StateError: a value, which can only be a sum, is outside the range of its type.
    """
    if dict(rows.schema) == table.schema:
        return rows
    try:
        return rows.cast(pl.Schema(table.schema))
    except pl.exceptions.PolarsError as error:
        raise StateError(
            f"{table.operator}: a value exceeds the type of its column, so Parquet cannot hold it; "
            f"replay to topics: {error}"
        ) from error
