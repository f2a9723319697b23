"""When the monitor tells a person: docs/monitor.md, "Alerts"."""

from typing import Any

import msgspec
import pytest

from examples.game import game
from tests.monitor.samples import NOW_MS, stats
from tidemark.monitor.alerts import (
    REMEDIES,
    STUCK,
    ProcessHistory,
    Thresholds,
    alerts_of,
    follow,
    todo,
)
from tidemark.monitor.presence import FORGOTTEN_MS
from tidemark.monitor.status import status, why_open
from tidemark.runtime.service.reasons import ReasonStats
from tidemark.runtime.service.stats import (
    ClockStats,
    OperatorStats,
    PartitionStats,
    RestoreStats,
    SourceStats,
    Stats,
    instant_text,
)

NONE = Thresholds(lag_records=1_000, stuck_ms=60_000)


def held(by: str | None, since_ms: int) -> OperatorStats:
    return OperatorStats("pops", "p.log", 5, 0, 1, [ClockStats(0, 60_000, since_ms, by, 3, 9)], [])


def after(*records: Stats) -> ProcessHistory:
    seen = None
    for each in records:
        seen = follow(seen, each)
    assert seen is not None
    return seen


def kinds(*records: Stats) -> list[str]:
    return [alert.kind for alert in alerts_of(after(*records), NONE)]


def with_lags(*lags: int) -> list[Stats]:
    """Records five seconds apart."""
    return [stats(NOW_MS + 5_000 * n, lag=lag) for n, lag in enumerate(lags)]


def test_lag_that_grows_for_half_a_minute_is_an_alert():
    assert kinds(*with_lags(0, 300, 500, 800, 900, 1_000, 1_200)) == ["lag growing"]


def test_lag_that_is_worked_off_or_small_or_young_is_none():
    assert kinds(*with_lags(5_000, 4_000, 3_000, 2_000, 1_500, 1_000, 9_000)) == []
    assert kinds(*with_lags(0, 100, 200, 300, 400, 500, 600)) == []
    assert kinds(*with_lags(0, 2_000, 4_000)) == []
    assert kinds(*with_lags(0, 1_000, 4_000, 5_000, 5_000, 4_000, 3_000)) == []


def test_lag_before_half_a_minute_is_forgotten():
    assert kinds(*with_lags(0, 9_000, *[9_000] * 8)) == []


def test_a_clock_that_a_source_holds_for_long_is_an_alert_that_names_it():
    stuck = stats(operators=[held("moves/1", NOW_MS - 60_000)])
    (alert,) = alerts_of(after(stuck), NONE)
    assert (alert.kind, alert.subject, alert.since_ms) == (STUCK, "moves/1", NOW_MS - 60_000)
    assert alert.text == "moves/1 holds the clocks of 1 log partitions: 3 windows wait"
    assert kinds(stats(operators=[held("moves/1", NOW_MS - 59_999)])) == []


def test_a_clock_whose_sources_are_all_silent_is_not_stuck():
    assert kinds(stats(operators=[held(None, 0)])) == []


def test_dead_letters_are_told_of_for_five_minutes_after_the_last_one():
    first, last = stats(dead_letters=1), stats(NOW_MS + 1_000, dead_letters=2)
    assert kinds(first, last) == ["dead letters"]
    assert kinds(first, last, stats(NOW_MS + 301_000, dead_letters=2)) == ["dead letters"]
    assert kinds(first, last, stats(NOW_MS + 301_001, dead_letters=2)) == []


def test_dead_letters_of_a_life_that_ended_are_still_told_of():
    reborn = stats(NOW_MS + 2_000, started_at_ms=2)
    assert kinds(stats(dead_letters=1), reborn) == ["dead letters"]
    assert kinds(stats(), msgspec.structs.replace(reborn, dead_letters=1)) == ["dead letters"]


def test_the_first_record_is_no_restart_and_each_later_start_is_one():
    first = after(stats(dead_letters=3))
    assert (first.restarts, first.dead_at_ms) == (0, NOW_MS)
    assert after(stats(), stats(NOW_MS + 1_000)).restarts == 0
    reborn = stats(NOW_MS + 1_000, started_at_ms=2)
    assert after(stats(), reborn, reborn).restarts == 1


def test_a_restore_is_told_of_while_it_runs():
    restoring = stats(restores=[RestoreStats("p.pops.changelog", 0, 1, 9, None)])
    assert kinds(restoring) == ["restore running"]
    assert kinds(restoring, stats(NOW_MS + 1_000)) == []


def of_source(watermark_ms: int | None, at_ms: int) -> Stats:
    return stats(at_ms, "ingest", sources=[SourceStats("moves/1", watermark_ms)])


NOW = 1_796_000_000_000
"""November 2026."""


@pytest.mark.parametrize(
    ("watermark_ms", "unit"),
    [
        (NOW // 1_000 - 5, "1,000 times longer, as seconds are to ms"),
        (NOW // 1_000_000, "1,000,000 times longer, as seconds are to us"),
        (NOW * 1_000, "1,000 times shorter, as ms are to seconds"),
        (NOW * 1_000_000, "1,000,000 times shorter, as us are to seconds"),
    ],
)
def test_times_in_another_unit_are_an_alert_that_names_the_source_and_the_unit(watermark_ms, unit):
    (alert,) = alerts_of(after(of_source(watermark_ms, NOW)), NONE)
    assert (alert.kind, alert.subject, alert.process) == ("wrong unit", "moves", "ingest/0")
    assert alert.text.startswith(f"event times of moves/1 are about {instant_text(watermark_ms)}; ")
    assert unit in alert.text
    assert " they would be about 2026-11-" in alert.text


def test_old_times_and_times_that_are_near_are_no_wrong_unit():
    year_ms = 366 * 86_400_000
    for watermark_ms in (None, 0, NOW - year_ms, NOW + year_ms, NOW - 20 * year_ms):
        assert kinds(of_source(watermark_ms, NOW)) == []


def test_a_process_that_is_not_ready_for_long_is_an_alert_with_its_reason():
    def away(after_ms: int, **others: Any) -> Stats:
        reasons = ["postgresql://db: connection refused"]
        return stats(NOW_MS + after_ms, "sink", ready=False, reasons=reasons, **others)

    assert kinds(stats(service="sink"), away(1_000), away(15_999)) == []
    (alert,) = alerts_of(after(stats(service="sink"), away(1_000), away(16_000)), NONE)
    assert (alert.kind, alert.since_ms) == ("not ready", NOW_MS + 1_000)
    assert alert.text == "postgresql://db: connection refused"
    back = stats(NOW_MS + 17_000, "sink")
    assert kinds(away(0), away(16_000), back) == kinds(away(0), back, away(17_500)) == []
    assert kinds(away(0), away(16_000, started_at_ms=2)) == ["not ready"]
    restoring = [RestoreStats("p.pops.changelog", 0, 1, 9, None)]
    assert kinds(away(0), away(16_000, restores=restoring)) == ["restore running"]
    restored = [away(0, restores=restoring), away(16_000, restores=restoring)]
    assert kinds(*restored, away(17_000), away(31_999)) == [], (
        "not ready for 15 s since the restore"
    )
    assert kinds(*restored, away(17_000), away(32_000)) == ["not ready"]


def test_what_to_do_is_said_of_the_system_that_a_sink_writes_to():
    alert = {"kind": "not ready", "process": "sink/0"}
    plan = game.plan()
    assert todo(alert, plan).startswith("read the reason first; if the system that it writes to is")
    assert "(TIDEMARK_SINK)" in todo(alert, plan)
    assert "(TIDEMARK_ARCHIVE)" in todo({**alert, "process": "archive/0"}, plan)
    assert todo({**alert, "process": "ingest/0"}, plan) == REMEDIES["not ready"]
    wrong = todo({"kind": "wrong unit", "process": "ingest/0"}, plan)
    assert wrong.endswith("tidemark reset game --delete-results")


def test_an_alert_of_a_clock_says_what_its_source_waits_for():
    source = SourceStats("moves/1", 5, False, 0, NOW_MS - 8_000)
    ingest = stats(service="ingest", sources=[source])
    (alert,) = told(ingest, stats(operators=[held("moves/1", NOW_MS - 90_000)]))["alerts"]
    assert alert["kind"] == "clock stuck"
    assert alert["text"] == "moves/1 holds 1 clock of pops: no record came for 8 s; 3 windows wait"


def test_a_source_that_holds_many_clocks_is_one_alert_whichever_processes_have_them():
    source = SourceStats("moves/1", 5, False, 0, NOW_MS - 8_000)
    ingest = stats(service="ingest", sources=[source])

    def holding(slot: str, *numbers: int) -> Stats:
        each = [ClockStats(number, 60_000, NOW_MS - 90_000, "moves/1", 3, 9) for number in numbers]
        return stats(slot=slot, operators=[OperatorStats("pops", "p.log", 5, 0, 1, each, [])])

    seen = told(ingest, holding("a", 0, 1), holding("b", 2))
    (alert,) = seen["alerts"]
    assert (alert["subject"], alert["process"]) == ("moves/1", "windowing/a, windowing/b")
    assert alert["text"] == "moves/1 holds 3 clocks of pops: no record came for 8 s; 9 windows wait"
    (holder,) = seen["holders"]
    assert (holder["source"], holder["clocks"], holder["open_windows"]) == ("moves/1", 3, 9)
    many = told(ingest, *(holding(str(slot), slot) for slot in range(4)))["alerts"]
    assert [each["process"] for each in many] == ["4 processes"]


def test_a_source_is_named_after_three_seconds_and_no_process_that_is_silent():
    def named(since_ms: int, at_ms: int = NOW_MS) -> list[str]:
        held_since = stats(at_ms, operators=[held("moves/1", since_ms)])
        return [each["source"] for each in told(held_since)["holders"]]

    assert named(NOW_MS - 2_999) == []
    assert named(NOW_MS - 3_000) == ["moves/1"]
    assert named(NOW_MS - 9_000, at_ms=NOW_MS - 5_000) == []


def test_a_source_whose_watermark_has_moved_on_is_not_blamed_for_a_service_that_is_slow():
    source = SourceStats("moves/1", 60_001, False, 0, NOW_MS - 8_000)
    ingest = stats(service="ingest", sources=[source])
    (holder,) = told(ingest, stats(operators=[held("moves/1", NOW_MS - 9_000)]))["holders"]
    assert holder["text"] == (
        "its watermark has moved on, and the operator has still to read its rows; 3 windows wait"
    )


def test_dead_letters_name_their_reasons_the_most_frequent_first():
    reasons = [ReasonStats(f"reason {number}", 9 - number) for number in range(4)]
    (alert,) = alerts_of(after(stats(dead_letters=30, dead_reasons=reasons)), NONE)
    assert alert.text == "30 since its start: reason 0 (9); reason 1 (8); reason 2 (7)"


def test_partitions_that_are_wrong_in_the_same_way_are_one_alert():
    sources = [SourceStats(f"moves/{number}", NOW // 1_000) for number in range(3)]
    (alert,) = alerts_of(after(stats(NOW, "ingest", sources=sources)), NONE)
    assert alert.text.startswith("event times of 3 partitions of moves are about 1970-01-21")


def test_a_topic_that_is_wrong_in_two_ways_is_one_alert_that_names_both():
    sources = [SourceStats("moves/0", NOW // 1_000), SourceStats("moves/1", NOW * 1_000)]
    (alert,) = alerts_of(after(stats(NOW, "ingest", sources=sources)), NONE)
    assert alert.text.count("event times of moves/") == 2


def test_the_partitions_of_a_changelog_are_one_alert():
    restores = [RestoreStats("p.pops.changelog", number, 1, 9, None) for number in range(3)]
    (alert,) = alerts_of(after(stats(restores=restores)), NONE)
    assert alert.text == "p.pops.changelog, 3 partitions: 3 of 27 offsets"


def told(*records: Stats, now_ms: int = NOW_MS):
    seen = [follow(None, each) for each in records]
    return status("p", records, [a for each in seen for a in alerts_of(each, NONE)], now_ms)


def test_a_process_that_says_nothing_is_told_of_and_at_last_forgotten():
    assert told(stats(), now_ms=NOW_MS + 4_000)["alerts"] == []
    (alert,) = told(stats(), now_ms=NOW_MS + 4_001)["alerts"]
    assert (alert["kind"], alert["process"]) == ("silent", "windowing/0")
    gone = told(stats(dead_letters=1), now_ms=NOW_MS + FORGOTTEN_MS)
    assert (gone["alerts"], gone["processes"]) == ([], [])


def test_why_a_window_is_open_is_said_in_a_sentence():
    def why(
        by: str | None,
        lag: int = 0,
        loading: int = 0,
        written: int = 0,
        silent_ms: int = 8_000,
        watermark_ms: int | None = 5,
    ) -> str:
        source = SourceStats("moves/1", watermark_ms, False, 0, NOW_MS - silent_ms, loading)
        at = PartitionStats("moves", 1, 10, 10 + lag + written, lag, 10 + lag)
        ingest = stats(service="ingest", sources=[source], partitions=[at])
        windowing = stats(operators=[held(by, NOW_MS - 9_000)])
        said: str = told(ingest, windowing)["clocks"][0]["why"]
        return said

    assert why("moves/1") == "moves/1 holds it for 9 s: no record came for 8 s"
    assert (
        why("moves/1", lag=7)
        == "moves/1 holds it for 9 s: ingest has still to read 7 records of it"
    )
    assert (
        why("moves/1", lag=7, loading=5)
        == "moves/1 holds it for 9 s: it is a table that is loaded, at most 5 records are left"
    )
    assert (
        why("moves/1", written=3)
        == "moves/1 holds it for 9 s: a transaction of its producer is open, with 3 records"
    )
    assert why("moves/1", silent_ms=900) == (
        "moves/1 holds it for 9 s: its records do not move its watermark"
    )
    assert why("moves/1", silent_ms=900, watermark_ms=None) == (
        "moves/1 holds it for 9 s: its records become dead letters, or have no event time"
    )
    assert why("moves/2") == "moves/2 holds it for 9 s: no ingest process reads it"
    assert why("op:counts") == "operator counts holds it for 9 s"
    assert why(None) == "all sources are silent"


def test_clocks_and_sources_are_in_order_whichever_process_has_them():
    def clocks(*partitions: int) -> list[OperatorStats]:
        each = [ClockStats(partition, 60_000, NOW_MS, None, 0, 0) for partition in partitions]
        return [OperatorStats("pops", "p.log", 5, 0, 1, each, [])]

    def sources(*numbers: int) -> list[SourceStats]:
        return [SourceStats(f"moves/{number}", 5, False, 0, None) for number in numbers]

    seen = told(
        stats(slot="0", operators=clocks(2, 10), sources=sources(1, 10)),
        stats(slot="1", operators=clocks(0, 1), sources=sources(2)),
    )
    assert [clock["partition"] for clock in seen["clocks"]] == [0, 1, 2, 10]
    assert [source["source"] for source in seen["sources"]] == ["moves/1", "moves/2", "moves/10"]


def test_a_window_is_open_until_the_clock_has_reached_its_end():
    seen = told(stats(operators=[held("moves/1", NOW_MS)]))
    assert [clock["open"] for clock in why_open(seen, "pops", 60_000)] == [False]
    assert [clock["open"] for clock in why_open(seen, "pops", 60_001)] == [True]
    assert why_open(seen, "others", None) == []
