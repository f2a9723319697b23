"""The progress of a replay: what tasks send to the driver, and the line it shows."""

import time
from typing import cast

from pyspark.sql import SparkSession

from tests.patience import PATIENCE_S
from tidemark.partition import Partition
from tidemark.spark.progress import (
    CUTTING,
    Address,
    Progress,
    ProgressSender,
    TaskProgress,
    progress_listener,
)
from tidemark.spark.read.ranges import Ranges

LOGS = Partition("log", 0), Partition("log", 1)
RANGES = Ranges(dict.fromkeys(LOGS, 0), dict.fromkeys(LOGS, 100))


def at_offset(
    partition: int, slice_: int, offset: int, rows: int = 0, clock_ms: int = 0
) -> TaskProgress:
    return TaskProgress("", "log", partition, slice_, offset, rows, clock_ms)


def test_progress_has_share_rate_event_time_and_time_left():
    progress = Progress(RANGES, 1, began_s=10.0)
    progress.take(at_offset(0, 0, 99, 3_000, 1_767_225_600_000))
    progress.take(at_offset(1, 0, 49, 2_000, 1_767_225_660_000))

    line = progress.line(now_s=40.0)

    assert line == "75% of 200 offsets, 167 rows/s, event time 2026-01-01T00:00:00+00:00, 0:10 left"


def test_cutting_is_half_of_the_work():
    progress = Progress(RANGES, 2, began_s=0.0)
    progress.take(at_offset(0, CUTTING, 99))
    progress.take(at_offset(1, CUTTING, 99))
    assert progress.line(30.0) == "50% of 200 offsets, 0:30 left"

    progress.take(at_offset(0, 1, 99, 10, 5))
    assert progress.line(30.0).startswith("62% of 200 offsets")


class Context:
    """The part of a session that the listener uses."""

    sparkContext = property(lambda self: self)  # noqa: N815

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return {"spark.driver.host": "127.0.0.1"}


def test_the_listener_takes_progress_of_its_own_tasks_only():
    lines: list[str] = []
    progress = Progress(RANGES, 1, time.monotonic())
    with progress_listener(cast(SparkSession, Context()), progress, lines.append) as driver:
        ProgressSender(Address(driver.host, driver.port, "stranger")).send(LOGS[0], 0, 99, 7, 0)
        ProgressSender(driver).send(LOGS[1], 0, 49, 7, 0)
        deadline_s = time.monotonic() + PATIENCE_S
        while not any(line.startswith("25%") for line in lines):
            assert time.monotonic() < deadline_s, lines
            time.sleep(0.05)

    assert not any(line.startswith("75%") for line in lines)
