"""Results as Parquet files, written by the tasks themselves: nothing of them passes the driver.

``DIR/<operator>/<port>``, such as ``panes`` and ``late``, holds a file per log partition and slice,
with every column of the live topic and two that say where a result comes from: ``log_partition``
and ``log_offset``.  A task that Spark runs twice writes twice, under different names; what it
returns names its files, and the driver removes all others, then writes ``_SUCCESS``.
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
from tidemark.spark.work import Writer

SUCCESS = "_SUCCESS"


class About(msgspec.Struct, frozen=True):
    """What ``_SUCCESS`` says: of which program and log ranges a folder of results is.

    ``operators``: by name and port, the columns that name a result.
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

    def open(self, unit: LogReplay) -> Writer:
        """Begin with the files of a unit."""
        task = TaskContext.get()
        attempt = 0 if task is None else task.taskAttemptId()
        name = f"{unit.log.number:05}-{unit.slice:03}-{self.run}-{attempt}.parquet"
        return _UnitFiles(*opened(self.folder), name, unit)

    def prepare(self) -> None:
        """Refuse a folder that holds something.

        Raises:
            ConfigurationError: it does, or it cannot be reached.
        """
        system, path = opened(self.folder)
        if system.get_file_info(path).type == fs.FileType.File or _files(system, path):
            shown = without_password(self.folder)
            raise ConfigurationError(f"{shown} is not empty: replays add to nothing")
        system.create_dir(path, recursive=True)

    def complete(self, outcomes: Iterable[Outcome], plan: Plan, ranges: Ranges) -> None:
        """Remove the files of attempts that failed; say in ``_SUCCESS`` what the rest are."""
        system, path = opened(self.folder)
        names = sorted(file.path for outcome in outcomes for file in outcome.files)
        wanted = {f"{path}/{name}" for name in names}
        for found in _files(system, path):
            if found not in wanted:
                system.delete_file(found)
        with system.open_output_stream(f"{path}/{SUCCESS}") as file:
            file.write(msgspec.json.encode(_about(plan, ranges, names)))

    def discard(self) -> None:
        """Remove what a failed replay left."""
        system, path = opened(self.folder)
        system.delete_dir_contents(path, missing_dir_ok=True)


def opened(folder: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a folder, and its path there.

    Raises:
        ConfigurationError: Arrow knows no such file system.
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
class _Table:
    """One file in the making."""

    operator: str
    kind: str
    schema: dict[str, pl.DataType]
    frames: list[pl.DataFrame] = field(default_factory=list)
    rows: int = 0
    writer: pq.ParquetWriter | None = None


@dataclass
class _UnitFiles:
    """The files of one unit."""

    system: fs.FileSystem
    folder: str
    name: str
    unit: LogReplay
    _tables: dict[tuple[str, str], _Table] = field(default_factory=dict)
    _bytes: int = 0

    def take(self, given: SegmentOutput) -> Batches:
        """Keep results; write them when they are many."""
        for each in given.plan.published:
            name = each.port.name
            rows = given.output.frames.get(name)
            if rows is not None and rows.height:
                self._add(given.plan, each.port, rows, given.offsets[name])
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
        table = self._tables.setdefault(at, _Table(plan.name, port.name, schema))
        shown = port.published(rows).with_columns(
            pl.lit(self.unit.log.number, _PLACE["log_partition"]).alias("log_partition"),
            pl.Series("log_offset", offset),
        )
        table.frames.append(_cast(shown.select(*table.schema), table))
        self._bytes += int(shown.estimated_size())

    def _flush(self) -> None:
        for table in self._tables.values():
            if table.frames:
                self._write(table)
        self._bytes = 0

    def _write(self, table: _Table) -> None:
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

    def finish(self, unit: LogReplay) -> Batches:
        """Close the files; tell of them."""
        self._flush()
        written = []
        for table in self._tables.values():
            assert table.writer is not None
            table.writer.close()
            path = f"{table.operator}/{table.kind}/{self.name}"
            written.append(WrittenFile(path, table.operator, table.kind, table.rows))
        yield outcome_batch(Outcome.of(unit, written))


def _about(of: Plan, ranges: Ranges, files: list[str]) -> About:
    logs = {str(at): (ranges.begins[at], ranges.ends[at]) for at in ranges.partitions}
    operators = {
        plan.name: {each.port.name: each.port.identity for each in plan.published}
        for plan in of.operators
    }
    return About(of.pipeline, of.fingerprint, logs, operators, files)


def _cast(rows: pl.DataFrame, table: _Table) -> pl.DataFrame:
    """Give columns their declared types; only a sum may have outgrown its own."""
    if dict(rows.schema) == table.schema:
        return rows
    try:
        return rows.cast(pl.Schema(table.schema))
    except pl.exceptions.PolarsError as error:
        raise StateError(
            f"{table.operator}: a value is beyond its column's type, which Parquet cannot hold; "
            f"replay to topics: {error}"
        ) from error
