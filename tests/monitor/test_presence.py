"""Which processes the monitor shows: docs/monitor.md, "Processes"."""

from collections.abc import Iterable
from typing import Any

from tests.monitor.samples import NOW_MS, stats
from tidemark.monitor.presence import FORGOTTEN_MS
from tidemark.monitor.status import status
from tidemark.runtime.service.stats import (
    ClockStats,
    OperatorStats,
    PartitionStats,
    SourceStats,
    Stats,
)

SILENT_MS = NOW_MS - 5_000
"""The time of a record whose process is silent now."""


def shown(*records: Stats, now_ms: int = NOW_MS) -> dict[str, Any]:
    return status("p", records, [], now_ms)


def names(*records: Stats, now_ms: int = NOW_MS) -> dict[str, bool]:
    processes = shown(*records, now_ms=now_ms)["processes"]
    return {each["process"]: each["ready"] for each in processes}


def owning(*numbers: int) -> dict[str, Any]:
    return {"partitions": [PartitionStats("p.log", number, 1, 1, 0) for number in numbers]}


def clocks(by: str | None, numbers: Iterable[int]) -> list[OperatorStats]:
    each = [ClockStats(number, 60_000, NOW_MS, by, 0, 0) for number in numbers]
    return [OperatorStats("pops", "p.log", 5, 0, 1, each, [])]


def source(watermark_ms: int) -> list[SourceStats]:
    return [SourceStats("moves/1", watermark_ms, False, 0, NOW_MS - 8_000)]


def test_a_process_without_a_record_for_four_seconds_is_not_ready():
    seen = shown(stats(NOW_MS - 4_001, **owning(0)))
    (process,) = seen["processes"]
    assert (process["ready"], process["reasons"]) == (False, ["no record of windowing/0 for 4 s"])
    (alert,) = seen["alerts"]
    assert (alert["kind"], alert["since_ms"]) == ("silent", NOW_MS - 4_001)
    assert names(stats(NOW_MS - 4_000, **owning(0))) == {"windowing/0": True}


def test_a_longer_interval_of_stats_is_waited_for():
    slow = stats(NOW_MS - 31_000, interval_ms=10_000)
    assert names(slow) == {"windowing/0": True}
    assert names(slow, now_ms=NOW_MS + 1) == {"windowing/0": False}


def test_a_process_whose_partitions_others_own_is_gone_at_once():
    killed = stats(SILENT_MS, slot="old", **owning(0, 1))
    first, second = stats(slot="a", **owning(0)), stats(slot="b", **owning(1, 2))
    assert names(killed, first) == {"windowing/old": False, "windowing/a": True}
    assert names(killed, first, second) == {"windowing/a": True, "windowing/b": True}


def test_partitions_of_another_service_replace_nothing():
    killed = stats(SILENT_MS, slot="old", **owning(0))
    assert names(killed, stats(service="sessions", **owning(0)))["windowing/old"] is False


def test_a_silent_process_replaces_nothing():
    killed = stats(SILENT_MS, slot="old", **owning(0))
    later = stats(SILENT_MS + 100, slot="new", **owning(0))
    assert names(killed, later) == {"windowing/old": False, "windowing/new": False}


def test_a_process_without_partitions_is_replaced_by_a_later_one():
    killed = stats(SILENT_MS, service="joins", slot="old")
    earlier = stats(service="joins", slot="a", started_at_ms=SILENT_MS - 1)
    later = stats(service="joins", slot="b", started_at_ms=SILENT_MS)
    assert names(killed, earlier) == {"joins/old": False, "joins/a": True}
    assert names(killed, later) == {"joins/b": True}


def test_a_process_is_forgotten_after_an_hour():
    lost = stats(NOW_MS - FORGOTTEN_MS, **owning(0))
    assert names(lost) == {}
    assert names(lost, now_ms=NOW_MS - 1) == {"windowing/0": False}


def test_each_clock_is_shown_once_as_its_last_owner_knows_it():
    before = stats(NOW_MS - 900, slot="a", operators=clocks("moves/1", (0, 1)))
    now = stats(NOW_MS, slot="b", operators=clocks(None, (1,)))
    seen = [(each["partition"], each["process"]) for each in shown(now, before)["clocks"]]
    assert seen == [(0, "windowing/a"), (1, "windowing/b")]


def test_a_clock_does_not_wait_for_what_a_dead_process_said():
    windowing = stats(operators=clocks("moves/1", (0,)))
    killed = stats(SILENT_MS, service="ingest", slot="old", sources=source(1))
    (clock,) = shown(windowing, killed)["clocks"]
    assert clock["why"] == "moves/1 holds it for 0 s: no ingest process reads it"
    replaced = stats(service="ingest", slot="new", sources=source(2))
    seen = shown(windowing, replaced, killed)
    assert seen["clocks"][0]["why"] == "moves/1 holds it for 0 s: no record came for 8 s"
    assert [each["watermark_ms"] for each in seen["sources"]] == [2]


def test_the_clock_of_a_dead_process_says_that_no_record_comes():
    killed = stats(SILENT_MS, operators=clocks("moves/1", (0,)), **owning(0))
    (clock,) = shown(killed)["clocks"]
    assert clock["why"] == "no record of windowing/0 for 5 s"
