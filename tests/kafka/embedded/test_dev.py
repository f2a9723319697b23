"""``tidemark dev``: results of a file, of a change, and none of a mistake; then nothing is left."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.kafka.support.stack import wait_until
from tidemark.embedded.state import last_stack
from tidemark.project.new_project import new_project

ROOT = Path(__file__).parents[3]
TUTORIAL = (ROOT / "docs/tutorial.md").read_text()
FIRST = r"visits-per-minute +2026-03-02 08:00:00 to 08:01:00  page=/ visits=3 users=3  \(late"
IN_THE_SAME_FOLDER = [
    "python -m tidemark.embedded.tools kafka-console-producer --topic visits",
    "tidemark flush pipeline.py",
]
LAST = r"visits-per-minute +2026-03-02 08:15:00 to 08:16:00  page=/ visits=1"
WIDER = r"visits-per-minute +2026-03-02 08:00:00 to 08:05:00  page=/ visits=5 users=4  \(late"


class Shown:
    """A command that runs, and the lines that it has printed."""

    def __init__(self, process):
        self.process, self.lines = process, []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def close(self):
        """Read the rest, after the command has ended."""
        self._reader.join()
        self.process.stdout.close()

    def await_line(self, pattern):
        wait_until(
            lambda: (
                any(re.search(pattern, line) for line in self.lines)
                or self.process.poll() is not None
            ),
            f"{pattern} in {self.lines[-20:]}",
        )
        assert any(re.search(pattern, line) for line in self.lines), self.lines


def run(line, folder, environment, text=""):
    """Run a command of the tutorial's last step."""
    assert f"`{line.removesuffix(' --yes')}`" in TUTORIAL
    words = line.removeprefix("python ").split()
    module = ["-m", *words] if words[0] == "tidemark" else words
    done = subprocess.run(
        [sys.executable, *module],
        input=text,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "shop"
    new_project(folder)
    return folder


def test_dev_shows_what_passes_computes_a_change_and_ends_everything(project):
    command = [sys.executable, "-m", "tidemark", "dev", "pipeline.py", "--input", "events.jsonl"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    environment.pop("TIDEMARK_STATE", None)
    process = subprocess.Popen(
        command,
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        shown = Shown(process)
        shown.await_line(FIRST)
        shown.await_line(r"visits-per-minute.late .*user")
        shown.await_line(r"dead-letters .*yesterday")
        page = next(filter(None, (re.search("http://.*/", line) for line in shown.lines)))
        with urlopen(page[0]) as answer:
            assert answer.status == 200
        stack = last_stack(project / "var")
        assert stack
        pids = [stack.pid, *(each.pid for each in stack.supervision().status())]

        type_visit, close_minute = IN_THE_SAME_FOLDER
        run(type_visit, project, environment, text="typed by hand\n")
        shown.await_line(r"dead-letters .*typed by hand")
        run(f"{close_minute} --yes", project, environment)
        shown.await_line(LAST)

        pipeline = project / "pipeline.py"
        text = pipeline.read_text()
        pipeline.write_text(text.replace('tumbling("1m")', 'tumbling("5x")'))
        shown.await_line(r"^not loaded: pipeline.py:16: tumbling\(size\): '5x'")

        pipeline.write_text(text.replace('tumbling("1m")', 'tumbling("5m")'))
        shown.await_line(WIDER)
        query = "SELECT window_end, visits FROM visits_per_minute WHERE page = '/'"
        expected = ("2026-03-02T08:05:00.000Z", 5)
        with closing(sqlite3.connect(project / "var/shop.db")) as database:
            wait_until(lambda: expected in database.execute(query).fetchall(), "the row")
            assert ("2026-03-02T08:01:00.000Z", 3) not in database.execute(query).fetchall()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)
        shown.close()
    assert process.returncode == 130, shown.lines
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
