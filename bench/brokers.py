"""The broker that all peers share: the harness's own, or the embedded one where only we run."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.embedded.broker import Broker, answers


def is_set_up(work: Path) -> bool:
    """Say whether the harness's broker can be started."""
    return (work / "lib" / "kafka").is_dir() and shutil.which("kcat") is not None


@contextmanager
def harness_broker(folder: Path, work: Path, address: str) -> Iterator[str]:
    """Run the harness's broker; one that runs already is left running."""
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
    """Run Tidemark's broker where the harness looks for one."""
    folder = work / "broker-embedded"
    with Broker(folder) as broker:
        told = work / "broker" / "pid"
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(str(broker.pid), encoding="utf-8")
        yield broker.address
