"""The broker that all peers share: the harness's, or the embedded one if only Tidemark runs."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.embedded.broker import Broker, answers


def is_set_up(work: Path) -> bool:
    """Return whether the harness's broker can be started."""
    return (work / "lib" / "kafka").is_dir() and shutil.which("kcat") is not None


@contextmanager
def harness_broker(folder: Path, work: Path, address: str) -> Iterator[str]:
    """Return a context in which the harness's broker runs; a running one keeps running."""
    if answers(address):
        yield address
        return
    script = [str(folder / "broker.sh")]
    env = {**os.environ, "BENCH_WORK": str(work)}
    subprocess.run([*script, "start"], env=env, check=True)
    try:
        yield address
    finally:
        subprocess.run([*script, "stop"], env=env, check=True)


@contextmanager
def embedded_broker(work: Path) -> Iterator[str]:
    """Return a context in which Tidemark's broker runs where the harness expects its own."""
    folder = work / "broker-embedded"
    with Broker(folder) as broker:
        pid_file = work / "broker" / "pid"
        pid_file.parent.mkdir(parents=True, exist_ok=True)
        pid_file.write_text(str(broker.pid), encoding="utf-8")
        yield broker.address
