"""Told to stop, a service commits, leaves its group and ends with 0, whatever it was doing."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.forked import Process
from tests.kafka.support.stack import Stack, last_panes, move, wait_until
from tests.kafka.support.transactions import open_transaction
from tidemark.embedded.broker import Broker, free_port

T = 1_772_438_400_000
MOST_S = 10 + 20
"""What docs/operations.md promises, and some for a busy machine."""


def end(process: Process, number: int = signal.SIGTERM) -> int:
    process.send_signal(number)
    return process.wait(MOST_S)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_stopping_under_load_loses_nothing(broker, number):
    """50,000 rows of 50 keys; both services are stopped with two fifths of them read."""
    records = [(0, None, move(f"k{n % 50}", T + n // 10)) for n in range(50_000)]
    with Stack(broker, f"stopped-{number.name.lower()}") as stack:
        stack.start("ingest", "windowing")
        stack.produce(records[:20_000])
        wait_until(lambda: int(stack.figures("ingest").get("records", 0)) > 0, "the first rows")
        stack.produce(records[20_000:])
        for service in ("ingest", "windowing"):
            assert end(stack.process(service), number) == 0
            assert f".{service} stopped" in stack.log(service)
        stack.start("ingest", "windowing")
        stack.move("end", T + 60_000)
        stack.await_results("pops", lambda panes: len(last_panes(panes, "pops")) == 50)
        expected = Counter(f"k{n % 50}" for n in range(50_000))
        assert {k: n for (k, _), n in last_panes(stack.results("pops"), "pops").items()} == expected


def test_a_second_signal_ends_it_at_once(broker):
    with Stack(broker, "hurried") as stack:
        stack.start("ingest")
        stack.await_partitions()
        process = stack.process("ingest")
        process.send_signal(signal.SIGSTOP)  # so that both are there when it looks
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        assert process.wait(MOST_S) in (128 + signal.SIGTERM, 128 + signal.SIGINT)


def lonely(log: Path) -> "subprocess.Popen[bytes]":
    """Start a service that has no broker to talk to."""
    env = {**os.environ, "PIPELINE": "examples.game"}
    env["KAFKA_BOOTSTRAP_SERVERS"] = f"127.0.0.1:{free_port()}"
    with log.open("w") as stderr:
        return subprocess.Popen([sys.executable, "-m", "services.ingest"], env=env, stderr=stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_stopping_while_it_imports_is_clean(tmp_path):
    process = lonely(tmp_path / "log")
    wait_until(lambda: holds_back(process.pid, signal.SIGTERM), "the signal to be held back")
    assert end(process) == 0
    assert (tmp_path / "log").read_text() == ""


def holds_back(pid: int, number: int) -> bool:
    """Whether a process blocks a signal or handles it: before that the signal would kill it."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if "Sig" in line}
    return any(int(masks[name], 16) >> (number - 1) & 1 for name in ("SigBlk", "SigCgt"))


def test_stopping_while_it_waits_for_a_broker_is_clean(tmp_path):
    log = tmp_path / "log"
    process = lonely(log)
    wait_until(lambda: "waiting for a broker at 127.0.0.1:" in log.read_text(), "the wait")
    assert end(process) == 0
    assert "refused" in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.long
def test_stopping_when_the_broker_has_gone_ends_in_time(tmp_path):
    with Broker(tmp_path) as broker, Stack(broker.address, "alone") as stack:
        stack.start("ingest")
        stack.await_partitions()
        stack.move("a", T)
        broker.stop()
        assert end(stack.process("ingest")) == 0


def test_stopping_during_a_restore_is_clean(broker):
    """An open transaction on the changelog keeps the restore waiting."""
    with Stack(broker, "held") as stack:
        stack.start()
        stack.move("a", T)
        wait_until(lambda: stack.figures("windowing").get("rows") == "1", "the row")
        assert stack.stop("windowing") == {"windowing": 0}
        producer = open_transaction(stack)
        stack.start("windowing")
        wait_until(lambda: "was given" in stack.log("windowing"), "the partitions")
        assert end(stack.process("windowing")) == 0
        producer.abort_transaction(10)
