"""Stats and metrics say what docs/operations.md says they do."""

import re
from pathlib import Path

import fastavro
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidemark.partition import Partition
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.last_moved import LastMoved
from tidemark.runtime.service.health import Health
from tidemark.runtime.service.stats import (
    Account,
    ClockStats,
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

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
LOG, OTHER = Partition("p.log", 0), Partition("p.log", 1)


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
    clock = ClockStats(0, 60_000, 1_000, "moves/1", 3, 4_096)
    return Account(
        rows_in=10,
        rows_out=4,
        ends={LOG: 20},
        late=1,
        sources=[source],
        operators=[OperatorStats("pops", "p.log", 10, 1, 4, [clock], [source], 2)],
        restores=[RestoreStats("p.pops.changelog", 0, 3, 9, 1.5)],
    )


@pytest.fixture
def telemetry():
    told = Telemetry(Config(slot="7"), "p", "windowing", Health("p.windowing", 60.0))
    told.committed(0.02)
    told.publish(lambda _: full(), {LOG: 20})
    return told


@pytest.fixture
def stats(telemetry) -> Stats:
    latest: Stats = telemetry.metrics.latest
    return latest


def test_a_record_is_that_of_its_schema(stats):
    parsed = fastavro.parse_schema(schema_file("stats"))
    record = msgspec.json.decode(encode(stats))
    assert fastavro.validate(record, parsed, strict=True)
    assert decode(encode(stats)) == stats


def test_a_record_has_the_counts_of_the_work_and_the_commits(stats):
    assert (stats.service, stats.slot, stats.rows_in, stats.rows_out) == ("windowing", "7", 10, 4)
    assert (stats.lag, stats.commits.count, stats.commits.longest_ms) == (0, 1, 20.0)
    assert (stats.ready, stats.reasons) == (False, ["starting"])


def test_the_last_record_says_that_the_process_stops_in_order(telemetry):
    assert not telemetry.metrics.latest.stopped
    telemetry.publish(lambda _: full(), {LOG: 20}, stopped=True)
    assert telemetry.metrics.latest.stopped


def test_the_longest_commit_is_that_since_the_record_before(telemetry):
    telemetry.publish(lambda _: full(), {LOG: 20})
    assert telemetry.metrics.latest.commits.longest_ms == 0.0


def test_lag_is_unknown_until_all_ends_are_known():
    told = partition_stats({LOG: 20}, {LOG: 15, OTHER: 3})
    assert [each.lag for each in told] == [5, None]
    assert total_lag(told) is None
    assert total_lag(partition_stats({LOG: 20, OTHER: 3}, {LOG: 15, OTHER: 3})) == 5


def test_a_clock_stands_since_the_first_of_equal_readings():
    last_moved = LastMoved()
    readings = [(5, 100), (5, 200), (6, 300), (6, 400)]
    assert [last_moved.since_ms("c", *each) for each in readings] == [100, 100, 300, 300]


def test_metrics_are_those_of_the_page(telemetry):
    section = PAGE.split("\n## Metrics\n")[1].split("\n## ")[0]
    said = dict(re.findall(r"^\| `(tidemark_\w+)` \| (\w+) \|", section, re.MULTILINE))
    families = list(text_string_to_metric_families(telemetry.metrics.text().decode()))
    found = {
        each.name + "_total" * (each.type == "counter"): each.type
        for each in families
        if each.name.startswith("tidemark_") and not each.name.endswith("_created")
    }
    assert found == said
    assert all(each.samples for each in families), "each of them has a sample"


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
    assert sample("operator_duplicate_rows_total", operator="pops") == 2
    assert sample("source_silence_seconds", source="moves/0") == 3
    assert sample("source_loading_records", source="moves/0") == 7
    assert sample("source_load_failures_total", source="moves/0") == 2
    assert sample("commit_duration_seconds_count") == 1
    assert sample("restore_left_offsets", topic="p.pops.changelog", partition="0") == 6
