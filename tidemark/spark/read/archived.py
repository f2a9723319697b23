"""Segments of an archive as a DataFrame: a row per segment, which an executor reads."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemark.partition import Partition
from tidemark.runtime.archive.archive import Archive, ArchiveFile
from tidemark.spark.read.segment_rows import SEGMENTS, Batches, ddl, segment_batch

_FILES_DDL = "place string, path string, topic string, partition int, begin long, end long"
_TASKS_PER_CORE = 4


def archived_segments(spark: SparkSession, files: Sequence[ArchiveFile]) -> DataFrame:
    """Return the segments of files, each from its begin to its end.

    Returns:
        A DataFrame with the columns of ``SEGMENTS``.
    """
    rows = [(file.place, file.path, *file.at, file.begin, file.end) for file in files]
    tasks = min(len(rows), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    listed = spark.createDataFrame(rows, _FILES_DDL).repartition(tasks)
    return listed.mapInArrow(_unarchived, ddl(SEGMENTS))


def _unarchived(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield a batch per segment (``SEGMENTS``) of files, which come as rows of ``_FILES_DDL``."""
    for batch in batches:
        for file in batch.to_pylist():
            archive, log = Archive(file["place"]), Partition(file["topic"], file["partition"])
            for offset, value in archive.read(file["path"], file["begin"], file["end"]):
                yield segment_batch(log, offset, value)
