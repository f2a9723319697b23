"""Broker and services on one machine: up twice, kept alive, down twice, and nothing left."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.kafka.support.stack import wait_until
from tidemark.embedded import stack
from tidemark.embedded.broker import is_free
from tidemark.embedded.state import running_stack
from tidemark.errors import ConfigurationError

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        stack.up(folder, "examples.game", dies_with_us=True)
        yield folder
    stack.down(folder)


def test_up_again_changes_nothing(folder):
    before = stack.status(folder)

    again = stack.up(folder, "examples.game")

    assert again == running_stack(folder)
    assert stack.status(folder) == before
    assert [each.name for each in before] == ["broker", "ingest", "sessions", "sink", "windowing"]
    assert {each.state for each in before} == {"RUNNING"}


def test_services_tell_whether_they_are_ready(folder):
    wait_until(lambda: set(stack.readiness(folder).values()) == {"ready"}, "all services")
    assert set(stack.readiness(folder)) == {"ingest", "sessions", "sink", "windowing"}


def test_one_folder_runs_one_pipeline(folder):
    with pytest.raises(ConfigurationError, match=r"runs examples\.game: stop it first"):
        stack.up(folder, "examples.other")


@pytest.mark.parametrize("service", ["ingest", "windowing", "sessions", "sink"])
def test_a_killed_service_runs_again(folder, service):
    killed = pid(folder, service)
    os.kill(killed, signal.SIGKILL)

    wait_until(lambda: pid(folder, service) not in (0, killed), f"{service} again")


def test_moves_typed_into_the_console_producer_come_out_of_the_console_consumer(folder):
    start_ms = 1_772_438_400_000
    moves = [
        {"player": "alice", "at": start_ms + 1_000, "score": 3, "kind": "pop"},
        {"player": "alice", "at": start_ms + 90_000, "score": 0, "kind": "swipe"},
    ]
    lines = "".join(json.dumps(move) + "\n" for move in moves)
    run(folder, "kafka-console-producer", "--topic", "moves", text=lines)

    shown = run(
        folder,
        "kafka-console-consumer",
        *("--topic", "game.pops-per-minute", "--from-beginning", "--max-messages", "1"),
        *("--isolation-level", "read_committed", "--timeout-ms", "60000"),
    )

    pane = json.loads(shown)
    assert (pane["player"], pane["start"], pane["pops"], pane["score"]) == ("alice", start_ms, 1, 3)
    row = ("alice", "2026-03-02T08:00:00.000Z", 1, 3)
    query = "SELECT player, window_start, pops, score FROM pops_per_minute"
    with closing(sqlite3.connect(folder / "game.db")) as database:
        wait_until(lambda: row in database.execute(query).fetchall(), "the row")


def test_down_leaves_no_process_and_no_port_and_twice_is_once(folder):
    running = running_stack(folder)
    assert running
    pids = [running.pid, *(each.pid for each in stack.status(folder))]

    assert stack.down(folder)

    assert not [each for each in pids if Path(f"/proc/{each}").exists()]
    assert is_free(int(running.address.split(":")[1]))
    assert not Path(running.socket).parent.exists()
    assert not stack.down(folder)
    assert stack.status(folder) == []


@pytest.mark.long
def test_the_demo_counts_the_late_pops_and_leaves_nothing():
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"], capture_output=True, text=True, cwd=ROOT
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Right: every pop is in the minute in which it happened." in done.stdout
    assert_gone(done.stdout)


@pytest.mark.long
def test_the_demo_of_another_example_publishes_what_one_process_computes():
    command = [sys.executable, "-m", "examples.demo", "examples.alarms"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Right: Kafka has each result of one process, once." in done.stdout
    assert_gone(done.stdout, count=4)


@pytest.mark.long
def test_an_interrupted_demo_leaves_nothing():
    with subprocess.Popen(
        [sys.executable, "-m", "examples.demo"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as demo:
        assert demo.stdout
        shown = demo.stdout.readline()
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()

    assert demo.returncode == 130
    assert_gone(shown)


def assert_gone(shown, count=5):
    """Assert that a demo shows ``count`` processes, and that they have ended."""
    address, *processes = re.findall(r"127\.0\.0\.1:\d+|(?<=\w )\d+(?=,|$)", shown.split("\n")[0])
    assert len(processes) == count
    assert is_free(int(address.split(":")[1]))
    assert not [each for each in processes if Path(f"/proc/{each}").exists()]


def pid(folder, service):
    return next(each.pid for each in stack.status(folder) if each.name == service)


def run(folder, tool, *arguments, text=""):
    done = subprocess.run(
        [ROOT / "bin" / tool, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TIDEMARK_STATE": str(folder)},
    )
    return done.stdout
