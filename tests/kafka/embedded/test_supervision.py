"""Processes kept alive: started together, started again when killed, gone at the end."""

import os
import signal
import sys

import pytest

from tests.kafka.support.stack import wait_until
from tidemark.embedded.supervision import Program, Supervision
from tidemark.errors import ConfigurationError

SLEEPS = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.fixture
def supervise(tmp_path):
    begun = []

    def begin(**commands):
        programs = [Program(name, command, 1) for name, command in commands.items()]
        begun.append(Supervision.begin(tmp_path, programs, {}, dies_with_us=True))
        return begun[-1]

    yield begin
    for each in begun:
        each.end()


def test_a_killed_process_is_started_again(supervise):
    supervision = supervise(service=SLEEPS)
    supervision.start("service")
    killed = pid(supervision)
    os.kill(killed, signal.SIGKILL)

    wait_until(lambda: pid(supervision) not in (0, killed), "the process again")


def test_a_process_that_ends_at_once_is_reported_with_its_last_words(supervise):
    # A process that runs for two seconds has started, and on a loaded machine Python needs more.
    fails = ("/bin/sh", "-c", "echo topic moves does not exist >&2; exit 1")
    supervision = supervise(service=fails)

    with pytest.raises(
        ConfigurationError, match=r"^service did not start: topic moves does not exist \(all of it"
    ):
        supervision.start("service")


def test_the_end_leaves_no_process_and_no_socket(supervise):
    supervision = supervise(first=SLEEPS, second=SLEEPS)
    supervision.start("first", "second")
    pids = [supervision.pid, *(status.pid for status in supervision.status())]

    supervision.end()

    assert not any(os.path.exists(f"/proc/{each}") for each in pids)
    assert not supervision.socket.parent.exists()
    supervision.end()  # and once more is no mistake


def test_a_folder_with_spaces_and_percent_signs_is_fine(tmp_path, supervise, monkeypatch):
    folder = tmp_path / "50% of it"
    folder.mkdir()
    monkeypatch.chdir(folder)
    writes = (sys.executable, "-c", "open('a %d;b', 'w').close(); import time; time.sleep(60)")
    supervise(service=writes).start("service")

    assert (folder / "a %d;b").exists()


def pid(supervision):
    return supervision.status()[0].pid
