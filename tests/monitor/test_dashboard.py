"""The graph, its rates and its health: docs/monitor.md, "Dataflow"."""

from typing import Any

from examples.game import game
from tests.monitor.samples import NOW_MS, stats
from tidemark.monitor.alerts import REMEDIES, Thresholds, alerts_of, follow
from tidemark.monitor.dashboard import dashboard, sample
from tidemark.monitor.rates import RateMeter
from tidemark.monitor.status import status
from tidemark.runtime.service.stats import (
    ClockStats,
    OperatorStats,
    PartitionStats,
    RestoreStats,
    Stats,
)

PLAN = game.plan()
LOG = PLAN.logs[0].topic
POPS, SESSIONS = "pops-per-minute", "play-sessions"


def operator(name: str, rows: int, panes: int, clock_ms: int = NOW_MS) -> OperatorStats:
    clock = ClockStats(0, clock_ms, NOW_MS - 90_000, "moves/0", 3, 9)
    return OperatorStats(name, LOG, rows, 0, panes, [clock], [])


def processes(at_ms: int, step: int) -> list[Stats]:
    """The records of all services, ``step`` seconds after the first."""
    return [
        stats(
            at_ms,
            "ingest",
            rows_in=100 * step,
            rows_out=90 * step,
            lag=7,
            dead_letters=2 * step,
            partitions=[PartitionStats("moves", 0, 100 * step, 700, 7)],
        ),
        stats(at_ms, "windowing", operators=[operator(POPS, 80 * step, 4 * step)]),
        stats(at_ms, "sessions", operators=[operator(SESSIONS, 80 * step, 2 * step)]),
        stats(at_ms, "sink", partitions=[PartitionStats(f"game.{POPS}", 0, 3 * step, 3 * step, 0)]),
    ]


def shown(records: list[Stats], meter: RateMeter | None = None) -> dict[str, Any]:
    raised = [alert for each in records for alert in alerts_of(follow(None, each), Thresholds())]
    seen = status("game", records, raised, NOW_MS)
    return dashboard(PLAN, seen, records, (meter or RateMeter()).rates)


def health(seen: dict[str, Any]) -> dict[str, str]:
    return {node["id"]: node["health"] for node in seen["graph"]["nodes"]}


def test_the_graph_goes_from_raw_topics_to_sinks():
    nodes = {each["id"]: each for each in shown(processes(NOW_MS, 1))["graph"]["nodes"]}
    columns = {name: node["column"] for name, node in nodes.items()}
    assert columns == {
        "raw:moves": 0,
        "ingest": 1,
        f"log:{LOG}": 2,
        f"operator:{POPS}": 3,
        f"operator:{SESSIONS}": 3,
        f"topic:game.{POPS}": 4,
        f"topic:game.{SESSIONS}": 4,
        "dead": 4,
        "sink:sink": 5,
    }
    assert nodes["dead"]["row"] == 2


def test_edges_have_the_rates_of_the_last_seconds():
    meter = RateMeter()
    for step in range(4):
        for each in processes(NOW_MS - 3_000 + 1_000 * step, step):
            meter.take(each)
    edges = shown(processes(NOW_MS, 3), meter)["graph"]["edges"]
    assert {(each["from"], each["to"]): each["rate"] for each in edges} == {
        ("raw:moves", "ingest"): 100,
        ("ingest", "dead"): 2,
        ("ingest", f"log:{LOG}"): 90,
        (f"log:{LOG}", f"operator:{POPS}"): 80,
        (f"log:{LOG}", f"operator:{SESSIONS}"): 80,
        (f"operator:{POPS}", f"topic:game.{POPS}"): 4,
        (f"operator:{SESSIONS}", f"topic:game.{SESSIONS}"): 2,
        (f"topic:game.{POPS}", "sink:sink"): 3,
    }


def test_a_new_life_of_a_process_has_no_rate_at_first_and_none_below_zero():
    meter = RateMeter()
    meter.take(stats(NOW_MS, rows_in=900))
    meter.take(stats(NOW_MS + 1_000, rows_in=910))
    assert meter.rates("windowing/0")["rows_in"] == 10
    meter.take(stats(NOW_MS + 2_000, rows_in=5, started_at_ms=NOW_MS))
    assert meter.rates("windowing/0") == {}
    back = [PartitionStats("t", 0, offset, None, None) for offset in (9, 4)]
    meter.take(stats(NOW_MS + 3_000, started_at_ms=NOW_MS, partitions=back[:1]))
    meter.take(stats(NOW_MS + 4_000, started_at_ms=NOW_MS, partitions=back[1:]))
    assert "read:t/0" not in meter.rates("windowing/0")
    for second in range(5, 12):
        meter.take(
            stats(NOW_MS + 1_000 * second, started_at_ms=NOW_MS, partitions=back[second % 2 :])
        )
    assert meter.rates("windowing/0")["read:t/0"] == 0


def test_a_service_without_a_process_and_a_silent_one_do_not_work():
    every = processes(NOW_MS, 1)
    assert health(shown(every[:1]))[f"operator:{POPS}"] == "bad"
    every[1] = stats(NOW_MS - 5_000, "windowing", operators=[operator(POPS, 1, 1)])
    seen = health(shown(every))
    assert (seen[f"operator:{POPS}"], seen["ingest"]) == ("bad", "warn")


def test_an_alert_names_its_node_and_a_remedy():
    alerts = shown(processes(NOW_MS, 1))["alerts"]
    found = {(each["kind"], each["node"]) for each in alerts}
    assert found == {
        ("clock stuck", "raw:moves"),
        ("dead letters", "ingest"),
    }
    assert all("tidemark" in each["todo"] and "{" not in each["todo"] for each in alerts)
    assert set(REMEDIES) >= {each["kind"] for each in alerts}


def test_a_source_that_holds_clocks_waits_before_it_is_an_alert():
    every = processes(NOW_MS, 1)
    seen = health(dashboard(PLAN, status("game", every, [], NOW_MS), every, RateMeter().rates))
    assert seen["raw:moves"] == seen[f"operator:{POPS}"] == seen[f"operator:{SESSIONS}"] == "waits"
    assert health(shown(every))["raw:moves"] == "warn"


def test_a_sample_has_rates_lags_and_how_far_clocks_are_behind():
    meter = RateMeter()
    for step in (1, 2):
        for each in processes(NOW_MS + 1_000 * step, step):
            meter.take(each)
    latest = processes(NOW_MS + 2_000, 2)
    behind = {f"behind:{POPS}": 2_000, f"behind:{SESSIONS}": 2_000}
    assert sample(PLAN, latest, meter.rates, NOW_MS + 2_000) == {
        "rate:taken": 100,
        "rate:published": 0,
        "rate:late": 0,
        "rate:dead": 2,
        "lag:ingest": 7,
        "lag:windowing": 0,
        "lag:sessions": 0,
        "lag:sink": 0,
        **behind,
    }
    # What a silent process said of its lag is old; its clock stands, and so falls behind.
    later = sample(PLAN, latest[1:2], meter.rates, NOW_MS + 60_000)
    assert later == {f"behind:{POPS}": 60_000}


def test_no_series_is_made_by_the_name_of_a_stranger():
    stranger = stats(service="x" * 99, operators=[operator("nobody", 1, 1)])
    assert sample(PLAN, [stranger], RateMeter().rates, NOW_MS) == {}


def test_restores_and_replays_are_named_by_operator_and_partition():
    changelog = PLAN.operators[0].changelog
    assert PLAN.operators[0].name == POPS
    back, again = RestoreStats(changelog, 2, 3, 9, 1.5), RestoreStats(LOG, 0, 40, 80, None)
    seen = shown(
        [
            stats(service="windowing", restores=[back]),
            stats(service="replay", replays=[again]),
        ]
    )
    progress = ("kind", "process", "operator", "topic", "partition", "done", "total", "left_s")
    assert [tuple(each[name] for name in progress) for each in seen["restores"]] == [
        ("replay", "replay/0", f"{POPS}, {SESSIONS}", LOG, 0, 40, 80, None),
        ("restore", "windowing/0", POPS, changelog, 2, 3, 9, 1.5),
    ]
    assert "sink:replay" not in health(seen), "a replay is no part of the dataflow"
