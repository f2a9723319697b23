"""Measures the least work of a replay: polars' group_by over the log's rows, and a Parquet file.

python -m bench.replay.bound BROKER FOLDER: prints the CPU seconds, without reading the log.  It
ignores watermarks and lateness: one thread makes one pass over all rows in memory.
``bench.replay`` runs it after its replays.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from confluent_kafka import TopicPartition

from tidemark.core.time.segment import EVENT_TIME
from tidemark.language.load import load_pipeline
from tidemark.runtime.client import clients
from tidemark.runtime.config import Config
from tidemark.serde.segments import segment_at

_WINDOW_MS = 10_000


def main() -> None:
    """Read the log, group it by user and window, write a file."""
    assert pl.thread_pool_size() == 1, "POLARS_MAX_THREADS must be 1"
    rows = pl.concat(_frames(sys.argv[1]), rechunk=True)
    begun_s = time.process_time()
    window = pl.col(EVENT_TIME) // _WINDOW_MS * _WINDOW_MS
    score = pl.col("score")
    grouped = rows.group_by("user", window.alias("start")).agg(
        pl.len().alias("count"), score.sum().alias("sum"), score.min().alias("min"),
        score.max().alias("max"),
    )  # fmt: skip
    grouped.write_parquet(Path(sys.argv[2]) / "bound.parquet")
    print(time.process_time() - begun_s)


def _frames(broker: str) -> Iterator[pl.DataFrame]:
    (log,) = load_pipeline(os.environ["PIPELINE"]).plan().logs
    consumer = clients.plain_consumer(Config(bootstrap_servers=broker))
    for number in range(log.partitions):
        at = TopicPartition(log.topic, number, 0)
        _, end = consumer.get_watermark_offsets(at, timeout=30)
        consumer.assign([at])
        while consumer.position([at])[0].offset < end:
            for message in consumer.consume(500, 1.0):
                segment = segment_at(number, message.offset() or 0, message.value() or b"")
                yield from segment.streams.values()
    consumer.close()


if __name__ == "__main__":
    main()
