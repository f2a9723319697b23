"""Workers of Spark are forks of a process that has imported the modules of all tasks."""

import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tidemark.spark.services.worker_daemon import MODULES


def missing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"name": [n for n in MODULES if n not in sys.modules]})


def test_a_worker_begins_with_the_modules_of_all_tasks(spark):
    assert spark.range(0, 2, 1, 2).mapInArrow(missing, "name string").collect() == []
