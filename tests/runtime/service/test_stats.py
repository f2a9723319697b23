"""Stats and metrics say what docs/operations.md says they do."""

import copy
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import fastavro
import msgspec
import pytest
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from tidemark.partition import Partition
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.observed import LastMoved
from tidemark.runtime.service import telemetry as telemetry_module
from tidemark.runtime.service.health import Health
from tidemark.runtime.service.histogram import HistogramStats
from tidemark.runtime.service.reasons import ReasonStats
from tidemark.runtime.service.stats import (
    Account,
    ClockStats,
    LatencyStats,
    OperatorStats,
    RestoreStats,
    SourceStats,
    Stats,
    decode,
    encode,
    partition_stats,
    total_lag,
)
from tidemark.runtime.service.telemetry import Telemetry
from tidemark.serde.avro import schema_file

PAGE = (Path(__file__).parents[3] / "docs" / "monitor.md").read_text()
LOG, OTHER = Partition("p.log", 0), Partition("p.log", 1)
LATE_BY = HistogramStats(3, 6_020.0, [0, 0, 1, 0, 0, 0, 0, 0, 1, 1, *[0] * 9], 1.0, 2.0, 3.0)


def full() -> Account:
    """An account with something in every list."""
    source = SourceStats(
        "moves/0",
        90_000,
        idle=True,
        silence_ms=3_000,
        silent_since_ms=5,
        loading=7,
        load_failures=2,
    )
    clock = ClockStats(0, 60_000, 1_000, "moves/1", 3, 4_096, 5, 50_000, 70_000, [0] * 18 + [3])
    return Account(
        rows_in=10,
        rows_out=4,
        ends={LOG: 23},
        stable_ends={LOG: 20},
        late=1,
        sources=[source],
        operators=[
            OperatorStats(
                "pops", "p.log", 10, 1, 4, [clock], [source], 2, [ReasonStats("late", 1)], LATE_BY
            )
        ],
        restores=[RestoreStats("p.pops.changelog", 0, 3, 9, 1.5)],
        latencies=[LatencyStats("pops", LATE_BY)],
        dead_reasons=[ReasonStats("no JSON at N", 3, "parse")],
    )


@pytest.fixture
def telemetry():
    told = Telemetry(Config(slot="7"), "p", "windowing", Health("p.windowing", 60.0))
    told.committed(0.02)
    told.read(100)
    told.rebalanced()
    told.waited("input", 0.5)
    told.publish(lambda _: full(), {LOG: 20}, bytes_out=40)
    return told


@pytest.fixture
def stats(telemetry) -> Stats:
    latest: Stats = telemetry.metrics.latest
    return latest


def test_a_process_that_waits_before_its_work_writes_that_it_is_not_ready(monkeypatch):
    written: list[Stats] = []
    writer = SimpleNamespace(write=written.append)
    monkeypatch.setattr(telemetry_module, "StatsWriter", lambda *_: writer)
    health = Health("p.sink", 60.0)
    told = Telemetry(Config(), "p", "sink", health)
    now_s = time.monotonic()
    told.waiting(now_s)
    assert written == [], "the topic is not known yet"
    told.publish_by(cast(AdminClient, None))
    health.waiting("the database is away")
    for after_s in (0.0, 0.5, 1.0):
        told.waiting(now_s + after_s)
    shown = [(each.ready, each.reasons, each.lag) for each in written]
    assert shown == [(False, ["the database is away"], None)] * 2


def test_a_record_is_that_of_its_schema(stats):
    parsed = fastavro.parse_schema(schema_file("stats"))
    record = msgspec.json.decode(encode(stats))
    assert fastavro.validate(record, parsed, strict=True)
    assert decode(encode(stats)) == stats


def test_a_record_has_the_counts_of_the_work_and_the_commits(stats):
    assert (stats.service, stats.slot, stats.rows_in, stats.rows_out) == ("windowing", "7", 10, 4)
    assert (stats.lag, stats.commits.count, stats.commits.longest_ms) == (0, 1, 20.0)
    assert (stats.ready, stats.reasons) == (False, ["starting"])
    assert (stats.bytes_in, stats.bytes_out, stats.rebalances) == (100, 40, 1)
    assert (stats.waits.input_ms, stats.waits.broker_ms) == (500, 20)
    assert stats.rates.rows_in_per_s == pytest.approx(stats.rates.bytes_in_per_s / 10)
    assert stats.latencies[0].of == "pops"


def test_the_last_record_says_that_the_process_stops_in_order(telemetry):
    assert not telemetry.metrics.latest.stopped
    telemetry.publish(lambda _: full(), {LOG: 20}, stopped=True)
    assert telemetry.metrics.latest.stopped


IDENTITIES = {"pipeline", "service", "slot", "at_ms", "started_at_ms"} | {
    *("topic", "partition", "source", "operator", "reason", "of")
}


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*at, key)
        if isinstance(each, dict | list):
            yield from paths(each, (*at, key))


def test_a_null_anywhere_is_as_a_field_that_is_absent(stats):
    whole = msgspec.to_builtins(stats)
    for *path, name in paths(whole):
        absent, null = copy.deepcopy(whole), copy.deepcopy(whole)
        held, other = absent, null
        for step in path:
            held, other = held[step], other[step]
        del held[name]
        other[name] = None
        if name in IDENTITIES:
            with pytest.raises(msgspec.DecodeError):
                decode(msgspec.json.encode(null))
        else:
            assert decode(msgspec.json.encode(null)) == msgspec.convert(absent, Stats), (path, name)


def test_the_longest_commit_is_that_since_the_record_before(telemetry):
    telemetry.publish(lambda _: full(), {LOG: 20})
    assert telemetry.metrics.latest.commits.longest_ms == 0.0


def test_lag_is_unknown_until_all_ends_are_known():
    ends = {LOG: 25, OTHER: 9}
    told = partition_stats(ends, {LOG: 20}, {LOG: 15, OTHER: 3})
    assert [each.lag for each in told] == [5, None]
    assert total_lag(told) is None
    both = partition_stats(ends, {LOG: 20, OTHER: 3}, {LOG: 15, OTHER: 3})
    assert total_lag(both) == 5
    assert [each.open for each in both] == [5, 6], "open transactions are no lag"


def test_a_clock_stands_since_the_first_of_equal_readings():
    last_moved = LastMoved()
    readings = [(5, 100), (5, 200), (6, 300), (6, 400)]
    assert [last_moved.since_ms("c", *each) for each in readings] == [100, 100, 300, 300]


def test_metrics_are_those_of_the_page(telemetry):
    section = PAGE.split("\n## Metrics\n")[1].split("\n## ")[0]
    row = re.compile(r"^\| `(tidemark_\w+)` \| (\w+) \| ([\w ]+) \|(.*?)\|", re.MULTILINE)
    said = {name: (kind, unit, labels) for name, kind, unit, labels in row.findall(section)}
    families = list(text_string_to_metric_families(telemetry.metrics.text().decode()))
    assert all(each.samples for each in families), "each of them has a sample"
    found = {
        each.name + "_total" * (each.type == "counter"): each
        for each in families
        if each.name.startswith("tidemark_") and not each.name.endswith("_created")
    }
    assert {name: each.type for name, each in found.items()} == {n: s[0] for n, s in said.items()}
    for name, each in found.items():
        assert {*re.findall(r"`(\w+)`", said[name][2])} == {*each.samples[0].labels} - {"le"}, name
        for unit in ("seconds", "bytes"):
            assert (unit in name) == (unit in said[name][1]), name


def test_metrics_have_the_labels_and_units_of_the_page(telemetry):
    def sample(name: str, **labels: str) -> float:
        (value,) = (s.value for s in samples if (s.name, s.labels) == (f"tidemark_{name}", labels))
        return value

    families = text_string_to_metric_families(telemetry.metrics.text().decode())
    samples = [sample for family in families for sample in family.samples]
    assert sample("rows_in_total") == 10
    assert sample("lag_records", topic="p.log", partition="0") == 0
    assert sample("clock_timestamp_seconds", operator="pops", partition="0") == 60
    assert sample("clock_held_seconds", operator="pops", partition="0", source="moves/1") > 1e9
    assert sample("active_rules", operator="pops", partition="0") == 5
    assert sample("operator_duplicate_rows_total", operator="pops") == 2
    assert sample("source_silence_seconds", source="moves/0") == 3
    assert sample("source_loading_records", source="moves/0") == 7
    assert sample("source_load_failures_total", source="moves/0") == 2
    assert sample("commit_duration_seconds_count") == 1
    assert sample("commit_duration_seconds_bucket", le="0.01") == 0
    assert sample("commit_duration_seconds_bucket", le="0.02") == 1
    assert sample("result_latency_seconds_bucket", of="pops", le="2.0") == 2
    assert sample("result_latency_seconds_sum", of="pops") == 6.02
    assert sample("operator_late_by_seconds_count", operator="pops") == 3
    assert sample("operator_late_reasons_total", operator="pops", reason="late") == 1
    assert sample("dead_letter_reasons_total", stage="parse", reason="no JSON at N") == 3
    assert sample("bytes_out_total") == 40
    assert sample("waiting_seconds_total", **{"for": "broker"}) == 0.02
    assert sample("open_transaction_records", topic="p.log", partition="0") == 3
    assert sample("restore_left_offsets", topic="p.pops.changelog", partition="0") == 6
