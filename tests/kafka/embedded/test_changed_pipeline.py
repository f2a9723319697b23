"""A service that cannot go on leaves the rest up, and its error names the command that helps."""

import os
import re
import shlex
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests import forked
from tests.kafka.support.stack import wait_until
from tidemark.embedded.broker import answers
from tidemark.embedded.state import running_stack
from tidemark.runtime.client import clients
from tidemark.runtime.config import Config

ROOT = Path(__file__).parents[3]
PIPELINE = """\
from tidemark import Pipeline, count, monotonic, tumbling

pipeline = Pipeline("changing", partitions=1)
schema = {{"k": str, "at": int}}
rows = pipeline.source("raw", schema=schema, event_time="at", watermark=monotonic())
rows.key_by("k").window(tumbling("{size}")).aggregate(n=count()).to("counts")
"""


class Local:
    """The stack of a folder, by its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.module = folder / "state", folder / "changing.py"

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "TIDEMARK_STATE": str(self.folder), "PYTHONPATH": str(ROOT)}
        env.pop("KAFKA_BOOTSTRAP_SERVERS", None)
        done = forked.run(words, env, self.folder.parent)
        return forked.as_text(done)

    def up(self) -> "subprocess.CompletedProcess[str]":
        return self.run("tidemark.embedded", "up", str(self.module))

    def states(self) -> dict[str, str]:
        stack = running_stack(self.folder)
        assert stack
        return {each.name: each.state for each in stack.supervision().status()}

    def feed(self) -> None:
        stack = running_stack(self.folder)
        assert stack
        producer = clients.idempotent_producer(Config(bootstrap_servers=stack.address), print)
        for n in range(100):
            producer.produce("raw", b'{"k":"a","at":%d}' % (n * 1_000))
        assert producer.flush(30) == 0
        # Only a service that has committed a result refuses another window.
        wait_until(self.has_results, "a result")

    def has_results(self) -> bool:
        with closing(sqlite3.connect(self.folder / "changing.db")) as results:
            found = results.execute("select 1 from sqlite_master where name = 'counts'").fetchall()
            return bool(found and results.execute("select 1 from counts").fetchall())


@pytest.fixture
def local(tmp_path):
    local = Local(tmp_path)
    local.module.write_text(PIPELINE.format(size="10s"))
    yield local
    local.run("tidemark.embedded", "down")


def test_a_changed_window_leaves_the_rest_up_and_the_advice_works(local):  # B7, B11
    first = local.up()
    assert first.returncode == 0, first.stderr
    local.feed()
    assert local.run("tidemark.embedded", "stop").returncode == 0
    assert {*local.states().values()} == {"RUNNING", "STOPPED"}

    local.module.write_text(PIPELINE.format(size="20s"))
    for _ in range(2):  # the second one starts it again, and reports the same
        changed = local.up()
        assert changed.returncode == 1, changed.stdout
        (line,) = [each for each in changed.stderr.splitlines() if "up: windowing " in each]
        states = local.states()
        del states["windowing"]
        assert set(states.values()) == {"RUNNING"}
    stack = running_stack(local.folder)
    assert stack
    assert answers(stack.address)

    program, *words = shlex.split(re.findall(r"'(tidemark reset [^']*)'", line)[0])
    assert {str(local.module), stack.address} <= set(words)
    reset = local.run(program, *words, "--yes")
    assert reset.returncode == 0, reset.stderr

    again = local.up()
    assert again.returncode == 0, again.stderr
    assert set(local.states().values()) == {"RUNNING"}
