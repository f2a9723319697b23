"""Reads records through ingest, one batch at a time: a process of its own.

worker.main() prints the CPU seconds of a batch for each line of its input, the name of a shape.
"""

import gc
import sys
import time

from bench.records.shapes import SHAPES, Shape
from tidemark import Pipeline, bounded, count, tumbling
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.runtime.service.command import keep_freed_memory

_WARM_UP = 2


class Reader:
    """Reads the same batch of a shape again and again."""

    def __init__(self, shape: Shape, count_: int) -> None:
        """Prepare a batch of ``count_`` records."""
        pipeline = Pipeline("bench")
        rows = pipeline.source(
            "records",
            schema=shape.schema(),
            event_time="at",
            watermark=bounded("1s"),
            **shape.options(),
        )
        rows.key_by(shape.key).window(tumbling("10s")).aggregate(n=count()).to("out")
        self._ingest = Ingest(pipeline.plan())
        self._batch = RecordBatch.of_values("records", 0, 0, shape.records(count_), 0)
        for _ in range(_WARM_UP):
            self.cpu_s()

    def cpu_s(self) -> float:
        """Read the batch; return the CPU seconds of the process.

        Raises:
            ValueError: a record did not become a row.
        """
        began_s = time.process_time()
        taken = self._ingest.take(self._batch, Progress())
        took_s = time.process_time() - began_s
        if taken.counts.passed != len(self._batch):
            raise ValueError(f"{taken.counts}: {taken.dead_letters[:1]}")
        return took_s


def main() -> None:
    """Serve until the input ends."""
    gc.disable()  # as the services do
    keep_freed_memory()
    count_ = int(sys.argv[1])
    readers: dict[str, Reader] = {}
    for line in sys.stdin:
        name = line.rstrip("\n")
        if name not in readers:
            readers[name] = Reader(SHAPES[name], count_)
        gc.collect()
        print(readers[name].cpu_s(), flush=True)
