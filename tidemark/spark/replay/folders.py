"""Compares two folders of replayed results: of two programs, or of two ranges of the logs.

Rows are compared as JSON text, which has every bit of a double.  Columns that only one program has
are not compared; the result names them.
"""

from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemark.core.windows.pane import REVISION
from tidemark.errors import ConfigurationError
from tidemark.spark.replay.matching import (
    LEFT,
    RIGHT,
    Difference,
    TopicDiff,
    first_differences,
    totals,
    windows,
)
from tidemark.spark.replay.replay import one_line_errors
from tidemark.spark.targets.files import SUCCESS, FolderInfo, opened

_PLACE = ("log_partition", "log_offset")
_JSON = {"ignoreNullFields": "false"}


@dataclass(frozen=True)
class Folder:
    """A folder with the results of a complete replay."""

    path: str
    info: FolderInfo

    @classmethod
    def open(cls, path: str) -> "Folder":
        """Read the ``_SUCCESS`` of a folder.

        Raises:
            ConfigurationError: the folder does not exist, or its replay is not complete.
        """
        system, place = opened(path)
        try:
            with system.open_input_stream(f"{place}/{SUCCESS}") as file:
                return cls(path, msgspec.json.decode(file.read(), type=FolderInfo))
        except OSError:
            raise ConfigurationError(
                f"{path} holds no results of a complete replay: no {SUCCESS} in it"
            ) from None
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"{path}/{SUCCESS} is not from a replay: {error}") from None

    def read(self, spark: SparkSession, part: str) -> DataFrame | None:
        """Return the rows of ``OPERATOR/PORT``, with the port's columns; None without files."""
        if not any(name.startswith(f"{part}/") for name in self.info.files):
            return None
        path = self.path if "://" in self.path else Path(self.path).absolute().as_uri()
        return spark.read.parquet(f"{path.rstrip('/')}/{part}")


@dataclass(frozen=True)
class FoldersDiff:
    """The result of a comparison of two folders.

    ``only``: a line for each operator and column that only one side has.
    """

    left: Folder
    right: Folder
    topics: list[TopicDiff]
    differences: list[Difference]
    only: list[str]

    @property
    def equal(self) -> bool:
        """Whether both hold the same results of the same operators."""
        return not self.only and not any(topic.different for topic in self.topics)


def compare(spark: SparkSession, left: Folder, right: Folder, limit: int = 20) -> FoldersDiff:
    """Compare two folders operator by operator and port by port."""
    common = [name for name in left.info.operators if name in right.info.operators]
    only = _only("operator", left, set(left.info.operators) - set(common))
    only += _only("operator", right, set(right.info.operators) - set(common))
    sides: list[DataFrame] = []
    parts = [(name, port) for name in common for port in left.info.operators[name]]
    for name, port in parts:
        both, missing = _sides(spark, left, right, name, port)
        sides += both
        only += missing
    found, first = _matched(spark, sides, limit) if sides else ({}, [])
    names = [f"{name}/{port}" for name, port in parts]
    topics = [found.get(name, TopicDiff(name, 0, 0, 0, 0, 0)) for name in names]
    return FoldersDiff(left, right, topics, first, only)


def _matched(
    spark: SparkSession, sides: list[DataFrame], limit: int
) -> tuple[dict[str, TopicDiff], list[Difference]]:
    messages = reduce(DataFrame.unionByName, sides)
    with one_line_errors():
        found = totals(windows(messages))
        differ = any(topic.different for topic in found.values())
        return found, first_differences(spark, lambda: messages, limit) if differ else []


def _only(what: str, folder: Folder, names: set[str]) -> list[str]:
    return [f"{what} {name} is only in {folder.path}" for name in sorted(names)]


def _sides(
    spark: SparkSession, left: Folder, right: Folder, name: str, port: str
) -> tuple[list[DataFrame], list[str]]:
    part = f"{name}/{port}"
    read = [
        (side, folder, frame)
        for side, folder in ((LEFT, left), (RIGHT, right))
        if (frame := folder.read(spark, part)) is not None
    ]
    columns = [set(frame.columns) for _, _, frame in read]
    shared = set.intersection(*columns) if columns else set()
    key = left.info.operators[name][port]
    only = [
        line
        for _, folder, frame in read
        for line in _only(f"column {part}", folder, set(frame.columns) - shared)
    ]
    return [_messages(frame, part, key, shared, side) for side, _, frame in read], only


def _messages(
    rows: DataFrame, part: str, key: tuple[str, ...], shared: set[str], side: str
) -> DataFrame:
    """Return rows as messages (columns of matching.py) of the topic ``OPERATOR/PORT``."""
    values = [name for name in rows.columns if name in shared and name not in _PLACE]
    revision = f.col(REVISION) if REVISION in values else f.lit(0).cast("long")
    return rows.select(
        f.lit(part).alias("topic"),
        f.col("log_partition").alias("partition"),
        f.lit(side).alias("side"),
        f.struct(f.col("log_offset").alias("offset"), revision.alias("revision")).alias("place"),
        f.lit(True).alias("sure"),
        f.col("log_offset").alias("at"),
        f.to_json(f.struct(*key), _JSON).cast("binary").alias("key"),
        f.to_json(f.struct(*values), _JSON).cast("binary").alias("value"),
    )
