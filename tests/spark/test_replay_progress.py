"""The progress of a replay: what tasks send to the driver, and the line it shows."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from tests.patience import PATIENCE_S
from tidemark.partition import Partition
from tidemark.runtime.service.stats import RestoreStats, Stats
from tidemark.spark.progress import (
    CUTTING,
    Address,
    Progress,
    ProgressSender,
    TaskProgress,
    progress_listener,
)
from tidemark.spark.read.ranges import Ranges
from tidemark.spark.replay import stats as replay_records
from tidemark.spark.replay.stats import replay_stats, replays_of

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


def test_stats_have_the_offsets_of_each_log_partition():
    progress = Progress(RANGES, 2, began_s=10.0)
    progress.take(at_offset(0, 0, 99))
    progress.take(at_offset(0, 1, 49))

    assert replays_of(progress, now_s=25.0) == [
        RestoreStats("log", 0, 75, 100, 5.0),
        RestoreStats("log", 1, 0, 100, None),
    ]


class Written:
    """Keeps what a replay writes to the stats topic."""

    def __init__(self) -> None:
        self.records: list[Stats] = []
        self.closed = False

    def write(self, record: Stats) -> None:
        assert not self.closed
        self.records.append(record)

    def close(self) -> None:
        self.closed = True

    def wait_for(self, more: int) -> None:
        wanted = len(self.records) + more
        deadline_s = time.monotonic() + PATIENCE_S
        while len(self.records) < wanted:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    found = Written()
    monkeypatch.setattr(replay_records, "StatsWriter", lambda *_: found)
    return found


def of_interval(ms: int) -> Any:
    return SimpleNamespace(stats_interval_ms=ms, slot="0")


def test_a_replay_without_progress_is_not_silent(written: Written):
    with replay_stats(of_interval(5), cast(Any, None), "p") as take:
        written.wait_for(3)
        progress = Progress(RANGES, 2, began_s=10.0)
        progress.take(at_offset(0, 0, 99))
        take(progress)
        written.wait_for(3)
    assert written.closed
    first, *_, last = written.records
    assert (first.replays, first.stopped, first.ready) == ([], False, True)
    assert [each.done for each in last.replays] == [50, 0]
    assert [each for each in written.records if each.stopped] == [last]
    assert {each.lag for each in written.records} == {0}, "the page adds the lags of all processes"
    assert {each.interval_ms for each in written.records} == {5}
    times_ms = [each.at_ms for each in written.records]
    assert times_ms == sorted(times_ms)
    assert times_ms[0] < times_ms[-1]


def test_a_replay_that_fails_ends_its_stats_and_none_are_written_without_an_interval(
    written: Written,
):
    with pytest.raises(ZeroDivisionError), replay_stats(of_interval(5), cast(Any, None), "p"):
        raise ZeroDivisionError
    assert (written.records[-1].stopped, written.closed) == (True, True)
    count = len(written.records)
    with replay_stats(of_interval(0), cast(Any, None), "p") as take:
        take(Progress(RANGES, 2, began_s=10.0))
    assert len(written.records) == count


class Context:
    """The part of a session that the listener uses."""

    sparkContext = property(lambda self: self)  # noqa: N815

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return {"spark.driver.host": "127.0.0.1"}


def test_the_listener_takes_progress_of_its_own_tasks_only():
    lines: list[str] = []

    def show(shown: Progress) -> None:
        lines.append(shown.line(time.monotonic()))

    progress = Progress(RANGES, 1, time.monotonic())
    with progress_listener(cast(SparkSession, Context()), progress, show) as driver:
        ProgressSender(Address(driver.host, driver.port, "stranger")).send(LOGS[0], 0, 99, 7, 0)
        ProgressSender(driver).send(LOGS[1], 0, 49, 7, 0)
        deadline_s = time.monotonic() + PATIENCE_S
        while not any(line.startswith("25%") for line in lines):
            assert time.monotonic() < deadline_s, lines
            time.sleep(0.05)

    assert not any(line.startswith("75%") for line in lines)
