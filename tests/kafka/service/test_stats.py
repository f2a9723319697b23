"""What services say of themselves on a real broker: the stats topic, and metrics."""

from urllib.request import urlopen

import pytest
from confluent_kafka.admin import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tests.kafka.support.stack import Stack, move, wait_until
from tests.kafka.support.transactions import open_transaction
from tidemark.embedded.broker import free_port
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.service.stats import OperatorStats, Stats, decode

T = 1_772_438_400_000


def told(stack: Stack, service: str) -> Stats | None:
    """Return what a service said last."""
    topic = f"{stack.name}.stats"
    if topic not in partition_counts(stack.admin):
        return None
    values = [value for key, value in stack.committed(topic) if key == f"{service}/0".encode()]
    return decode(values[-1] or b"") if values else None


def await_told(stack: Stack, service: str, enough, what: str) -> Stats:
    found: list[Stats] = []

    def happened() -> bool:
        stats = told(stack, service)
        found[:] = [stats] if stats is not None else []
        return stats is not None and enough(stats)

    wait_until(happened, f"{what} of {service}")
    return found[0]


def operator(stats: Stats, name: str) -> OperatorStats:
    return next(each for each in stats.operators if each.operator == name)


def test_lag_is_zero_once_all_is_committed_and_counts_are_those_of_the_rows(broker):
    with Stack(broker, "told") as stack:
        stack.start()
        stack.await_partitions()
        stack.produce((0, None, b"not json") for _ in range(3))
        for second in range(20):
            stack.move("a", T + 1_000 * second)
        stack.move("late", T)

        done = await_told(stack, "windowing", lambda s: s.rows_in == 21 and s.lag == 0, "the rows")
        assert (done.late, done.rows_out, done.ready, done.reasons) == (1, 1, True, [])
        assert stack.results("pops")[0]["pops"] == 10, "lag 0 means that results are committed"
        assert len(stack.results("pops.late")) == 1
        assert done.commits.count > 0
        assert 0 < done.commits.last_ms <= done.commits.total_ms
        assert done.commits.durations.count == done.commits.count
        assert done.bytes_in > 0
        assert done.bytes_out > 0
        assert done.rebalances > 0
        assert 0 < done.waits.input_ms < done.at_ms - done.started_at_ms
        assert done.commits.total_ms == pytest.approx(done.waits.broker_ms)
        (latency,) = done.latencies
        assert (latency.of, latency.histogram.count) == ("pops", 1)
        assert latency.histogram.sum_ms == pytest.approx(done.at_ms - T - 10_000, abs=60_000)
        (late,) = operator(done, "pops").late_reasons
        assert (late.reason, late.count) == ("late", 1)
        assert operator(done, "pops").late_by.sum_ms > 0

        ingest = await_told(
            stack, "ingest", lambda s: s.rows_in == 24 and s.lag == 0, "the records"
        )
        assert (ingest.rows_out, ingest.dead_letters) == (21, 3)
        (dead,) = ingest.dead_reasons
        assert (dead.stage, dead.count) == ("parse", 3)
        (source,) = ingest.sources
        assert source.source == f"{stack.raw}/0"
        assert source.watermark_ms == T + 17_000

        at_rest = {at.partition: at.lag for at in done.partitions}
        assert at_rest == {0: 0, 1: 0}, "markers of transactions are no lag"


@pytest.mark.long
def test_it_names_the_partition_that_holds_a_window_open_and_since_when(broker):
    with Stack(broker, "held-stats", raw_partitions=2) as stack:
        stack.start()
        stack.await_partitions()
        moves = [(0, None, move("a", T + 1_000 * second)) for second in range(30)]
        stack.produce([(1, None, move("a", T)), *moves])

        def held(stats: Stats) -> bool:
            clocks = operator(stats, "pops").clocks if stats.operators else []
            stand = all(clock.clock_ms == T - 2_000 for clock in clocks)
            return stand and sum(clock.open_windows for clock in clocks) == 3 and stats.lag == 0

        stats = await_told(stack, "windowing", held, "the clock")
        pops = operator(stats, "pops")
        assert {clock.held_by for clock in pops.clocks} == {f"{stack.raw}/1"}
        assert all(stats.started_at_ms <= c.unmoved_since_ms <= stats.at_ms for c in pops.clocks)
        shown = {source.source: source.watermark_ms for source in pops.sources}
        assert shown == {f"{stack.raw}/0": T + 27_000, f"{stack.raw}/1": T - 2_000}

        stack.move("a", T + 60_000, partition=1)
        passed = f"{stack.raw}/0"
        await_told(
            stack,
            "windowing",
            lambda s: all(c.held_by == passed for c in operator(s, "pops").clocks),
            "the other partition's turn",
        )


def test_metrics_are_served_beside_health(broker):
    port = free_port()
    with Stack(broker, "scraped") as stack:
        stack.start("ingest", TIDEMARK_HTTP_PORT=str(port))
        stack.await_partitions()
        stack.move("a", T)
        wait_until(lambda: scraped(port).get("tidemark_rows_in_total") == 1, "the row")
        found = scraped(port)
        assert found["tidemark_ready"] == 1
        assert found["tidemark_commit_duration_seconds_count"] > 0
        assert found["process_resident_memory_bytes"] > 1e7


def scraped(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = text_string_to_metric_families(answer.read().decode())
        return {sample.name: sample.value for family in families for sample in family.samples}


@pytest.mark.long
def test_stats_that_cannot_be_written_are_said_once_and_stop_nothing(broker):
    name = "mute"
    with Stack(broker, name) as stack:
        refusing = NewTopic(f"{name}.stats", 1, 1, config={"max.message.bytes": "1"})
        stack.admin.create_topics([refusing])[f"{name}.stats"].result()
        stack.start()
        stack.await_partitions()
        said = "stats are not written to"
        wait_until(lambda: all(said in stack.log(s) for s in stack.plan.services()), said)
        for second in range(20):
            stack.move("a", T + 1_000 * second)
        stack.await_results("pops", lambda panes: sum(p["pops"] for p in panes) == 10)
        assert [stack.log(s).count(said) for s in stack.plan.services()] == [1, 1, 1]
        assert set(stack.stop().values()) == {0}
        assert stack.committed(f"{name}.stats") == []


def test_no_stats_are_written_where_they_are_turned_off(broker):
    with Stack(broker, "silent-stats", TIDEMARK_STATS_INTERVAL_MS="0") as stack:
        stack.start()
        stack.await_partitions()
        stack.move("a", T)
        wait_until(lambda: stack.figures("windowing").get("rows") == "1", "the row")
        assert f"{stack.name}.stats" not in partition_counts(stack.admin)


@pytest.mark.long
def test_a_restore_is_told_with_its_progress(broker):
    with Stack(broker, "restoring") as stack:
        stack.start()
        stack.await_partitions()
        stack.move("a", T)
        await_told(stack, "windowing", lambda s: s.rows_in == 1 and s.lag == 0, "the row")
        stack.stop("windowing")
        producer = open_transaction(stack)
        stack.start("windowing")
        stats = await_told(stack, "windowing", lambda s: bool(s.restores), "the restore")
        assert not stats.ready
        assert any(reason.startswith("restoring ") for reason in stats.reasons)
        assert all(0 <= each.done <= each.total for each in stats.restores)
        producer.abort_transaction(10)
        await_told(stack, "windowing", lambda s: s.ready and not s.restores, "its end")

        writer = open_transaction(stack, stack.raw, 1)
        behind = await_told(stack, "ingest", lambda s: s.partitions[0].open > 0, "the transaction")
        assert behind.lag == 0, "no reader can read what is not committed"
        writer.abort_transaction(10)
        await_told(stack, "ingest", lambda s: s.partitions[0].open == 0, "its end")
