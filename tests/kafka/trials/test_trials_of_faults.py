"""Public bug trials on rebalance, fencing, restore, memory, shutdown and metrics, as they happened.

The events and what must come of them are those of the shared list of trials (tests/trials has the
ones without Kafka); waits end as soon as what is waited for is there.
"""

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.kafka.pipelines import counted as pipeline
from tests.kafka.support.stack import Replica, Stack, wait_until
from tidemark.embedded.broker import Broker, free_port
from tidemark.embedded.tools import tool

T0 = 1_767_225_600_000
FLUSH = (0, None, b'{"k":"_flush","ts":%d,"v":0}' % (T0 + 60_000))

OUTAGE_S = float(os.environ.get("TRIAL_OUTAGE_S", "15"))
"""How long a broker is away; the trial itself says 90."""


def record(key, at, value=1):
    return 0, None, b'{"k":"%s","ts":%d,"v":%d}' % (key.encode(), T0 + at, value)


def counted(broker, name, raw_partitions=1, options=None, **env):
    return Stack(broker, name, raw_partitions, module=pipeline, options=options, **env)


def windows(stack):
    """Return count and sum per key and window, without the flush; each must be there once."""
    panes = [pane for pane in stack.results("out") if pane["k"] != "_flush"]
    times = Counter((pane["k"], pane["start"]) for pane in panes)
    assert set(times.values()) <= {1}, f"results twice: {times.most_common(3)}"
    return {(pane["k"], pane["start"] - T0): (pane["count"], pane["sum"]) for pane in panes}


def rows(stack, service="windowing", slot="0"):
    """Return how many records or rows a service has taken since its start."""
    figures = stack.figures(service, slot)
    return int(figures.get("records" if service == "ingest" else "rows", 0))


@pytest.mark.parametrize("service", [pytest.param("ingest", marks=pytest.mark.long), "windowing"])
def test_b31_a_worker_that_was_stopped_is_fenced_when_it_wakes(broker, service):
    spec = {"KAFKA_SESSION_TIMEOUT_MS": "6000", "TIDEMARK_TRANSACTION_TIMEOUT_MS": "10000"}
    with counted(broker, f"b31-{service}", **spec) as stack:
        stack.start("ingest", "windowing", slot="a")
        stack.await_partitions()
        send = Producer({"bootstrap.servers": broker, "enable.idempotence": True})
        for n in range(1_000):
            send.produce(stack.raw, record(f"k{n % 10}", 5 * n)[2], partition=0)
            send.poll(1 / 200)
            if n == 300:
                wait_until(lambda: rows(stack, service, "a") > 100, "a hundred rows")
                stack.process(service, "a").send_signal(signal.SIGSTOP)
                stack.start(service, slot="b")
        assert send.flush(30) == 0
        wait_until(lambda: "was given" in stack.log(service, "b"), "partitions of B")
        wait_until(lambda: rows(stack, service, "b") > 0, "rows of B")  # before, it has no lag
        wait_until(lambda: stack.figures(service, "b").get("lag") == "0", "all of it")

        stack.process(service, "a").send_signal(signal.SIGCONT)
        assert stack.process(service, "a").wait() == 1
        stack.processes.pop(Replica(service, "a"))
        stack.produce([FLUSH])
        stack.await_results("out", lambda panes: len(panes) >= 10)
        assert set(stack.stop().values()) == {0}
        assert windows(stack) == {(f"k{n}", 0): (100, 100) for n in range(10)}


@pytest.mark.long
def test_b33_an_open_transaction_at_the_end_of_the_changelog_only_delays_the_restore(broker):
    with counted(broker, "b33") as stack:
        stack.start()
        stack.produce(record("a", 100 * n) for n in range(50))
        wait_until(lambda: rows(stack) == 50, "50 rows")
        time.sleep(1)
        stack.kill()
        side = Producer(
            {
                "bootstrap.servers": broker,
                "transactional.id": "b33-side",
                "transaction.timeout.ms": 120_000,
            }
        )
        side.init_transactions(30)
        side.begin_transaction()
        side.produce("b33.out.changelog", b"foreign", b"foreign key", 0)
        assert side.flush(10) == 0
        stack.start()
        wait_until(lambda: "waiting for an open transaction" in stack.log("windowing"), "a word")

        side.abort_transaction(30)
        stack.produce(record("a", 5_000 + 100 * n) for n in range(50))
        wait_until(lambda: rows(stack) == 50, "running again")
        stack.produce([FLUSH])
        stack.await_results("out", lambda panes: len(panes) >= 1)
        assert set(stack.stop().values()) == {0}
        assert windows(stack) == {("a", 0): (100, 100)}


@pytest.mark.long
def test_b38_memory_does_not_grow_while_the_broker_is_away(tmp_path):
    """A service whose session ends meanwhile starts anew in its process, and waits."""
    port = free_port()
    with Broker(tmp_path / "broker", port) as broker, counted(broker.address, "b38") as stack:
        stack.start()
        stack.await_partitions()
        stack.produce(record(f"k{n % 100}", n) for n in range(30_000))
        # Between commits: a broker may forget the end of a transaction: docs/decisions/0004.
        wait_until(lambda: rows(stack, "ingest") == rows(stack) == 30_000, "the first of it")
        services = [replica.service for replica in stack.processes]
        before = {name: rss_mib(stack.process(name).pid) for name in services}
        broker.stop()
        highest = dict(before)
        end_s = time.monotonic() + OUTAGE_S
        while time.monotonic() < end_s:
            for name in services:
                assert stack.process(name).poll() is None, stack.log(name)
                highest[name] = max(highest[name], rss_mib(stack.process(name).pid))
            time.sleep(1)
        broker.start()
        stack.produce(record(f"k{n % 100}", n) for n in range(30_000, 100_000))
        stack.produce([(0, None, b'{"k":"_flush","ts":%d,"v":0}' % (T0 + 600_000))])
        wanted = {(f"k{n}", 10_000 * w): (100, 100) for n in range(100) for w in range(10)}
        wait_until(lambda: len(stack.results("out")) >= len(wanted), "all windows")
        assert all("it starts anew" in stack.log(name) for name in services)
        assert set(stack.stop().values()) == {0}
        assert windows(stack) == wanted
    assert all(highest[name] - before[name] <= 50 for name in services), (before, highest)


def rss_mib(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0)


def test_b50_other_aggregates_stop_with_old_and_new_named(broker):
    with counted(broker, "b50") as stack:
        stack.start()
        stack.produce(record("a", 1_000 * n, n + 1) for n in range(5))
        wait_until(lambda: rows(stack) == 5, "five rows")
        assert set(stack.stop().values()) == {0}
        changed = json.dumps({"agg": ["count", "sum(v)", "max(v)"]})
        stack.start("windowing", TEST_OPTIONS=changed)
        assert stack.process("windowing").wait() == 2
        (line,) = [line for line in stack.log("windowing").splitlines() if "ERROR" in line]
        assert "b50" in line
        assert "sum" in line
        assert "max" in line
        assert "tidemark reset" in line
        assert stack.results("out") == []


def test_b51_stopping_in_mid_run_ends_quickly_and_loses_nothing(broker):
    with counted(broker, "b51") as stack:
        stack.start()
        stack.await_partitions()
        stack.produce(record(f"k{n % 50}", n // 10) for n in range(50_000))
        wait_until(lambda: rows(stack, "ingest") > 0, "some records")
        begin_s = time.monotonic()
        assert set(stack.stop().values()) <= {0, -signal.SIGTERM}
        assert time.monotonic() - begin_s < 10 + 20  # for a busy machine
        stack.start()
        stack.produce([FLUSH])
        stack.await_results("out", lambda panes: len(panes) >= 50)
        assert set(stack.stop().values()) == {0}
        assert windows(stack) == {(f"k{n}", 0): (1_000, 1_000) for n in range(50)}


@pytest.mark.long
@pytest.mark.parametrize("transactional", [False, True])
def test_b56_lag_is_0_when_all_is_read(broker, transactional):
    name = f"b56-{'transactional' if transactional else 'plain'}"
    port = str(free_port())
    with counted(broker, name) as stack:
        stack.start("ingest", TIDEMARK_HTTP_PORT=port)
        stack.start("windowing")
        send = produce_in_a_transaction if transactional else Stack.produce
        send(stack, [record("a", 10 * n) for n in range(100)])
        await_no_lag(stack)

        assert set(stack.stop().values()) == {0}
        end = TopicPartition(stack.raw, 0, 100)
        stack.admin.delete_records([end])[end].result()
        stack.start("ingest", TIDEMARK_HTTP_PORT=port)
        stack.start("windowing")
        await_no_lag(stack)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5) as answer:
            assert json.load(answer)["ready"] is True
        assert "restored" in stack.log("windowing")
        assert set(stack.stop().values()) == {0}


def produce_in_a_transaction(stack, records):
    """Write records with an end of a transaction behind them, and aborted ones behind that."""
    producer = Producer(
        {
            "bootstrap.servers": stack.config.bootstrap_servers,
            "transactional.id": f"{stack.name}-raw",
        }
    )
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for _, _, value in records:
            producer.produce(stack.raw, value, partition=0)
        assert producer.flush(10) == 0
        end(30)


def await_no_lag(stack):
    """Wait until the services' figures and Kafka's own tool agree that nothing is left."""
    services = ("ingest", "windowing")
    wait_until(lambda: {stack.figures(s).get("lag") for s in services} == {"0"}, "no lag")
    wait_until(lambda: lags(stack, services) == {"0"}, f"LAG 0 of {services}")


def lags(stack, services):
    """Return the column LAG of kafka-consumer-groups; it is a JVM, so services share a question."""
    asked = ["--bootstrap-server", stack.config.bootstrap_servers, "--describe"]
    for service in services:
        asked += ["--group", f"{stack.name}.{service}"]
    shown = subprocess.run(
        tool("kafka-consumer-groups", asked), capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in shown.stdout.splitlines() if line.strip()]
    heads = [n for n, line in enumerate(lines) if "LAG" in line]
    assert len(heads) == len(services), shown.stdout
    lag = lines[heads[0]].index("LAG")
    return {line[lag] for n, line in enumerate(lines) if n not in heads}
