"""A service for which the pipeline has no operators: docs/operations.md, "Containers"."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from tests.patience import PATIENCE_S
from tidemark.embedded.broker import free_port

ROOT = Path(__file__).parents[3]
MODULE = """\
import tidemark as td

pipeline = td.Pipeline("nosessions")
schema = {"at": int, "k": str}
rows = pipeline.source("raw", schema=schema, event_time="at", watermark=td.monotonic())
rows.key_by("k").window(td.tumbling("1m")).aggregate(n=td.count()).to("counts")
"""


def test_a_service_without_operators_is_ready_and_ends_with_0_on_a_signal(tmp_path):
    (tmp_path / "nosessions.py").write_text(MODULE)
    port = free_port()
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        "PIPELINE": "nosessions",
        "TIDEMARK_HTTP_PORT": str(port),
        "KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}",  # nothing is there
    }
    command = [sys.executable, "-m", "tidemark.commands.service", "sessions"]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            told = _ready(port)
            process.terminate()
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert told == {
        "service": "nosessions.sessions",
        "ready": True,
        "reasons": ["the pipeline has no operators for sessions"],
        "partitions": [],
    }
    assert process.returncode == 0, said
    assert "waits for a stop signal: the pipeline has no operators for sessions" in said


def _ready(port: int) -> object:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5) as answer:
                return json.load(answer)
        except OSError:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
