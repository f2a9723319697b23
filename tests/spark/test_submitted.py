"""A replay by ``spark-submit``, as docs/replay.md shows it: on executors that are processes.

The pipeline travels as a file, and the Python of the executors as an archive.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.spark.support.home import spark_home
from tidemark.embedded.spark_jars import kafka_source_jars
from tidemark.partition import Partition
from tidemark.runtime.service.stats import decode
from tidemark.spark.read.ranges import resolve

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "spark" / "pipelines" / "example.py"


def packed(folder: Path) -> Path:
    """Return an archive with a ``bin/python`` that is the one of the tests."""
    python, archive = folder / "python", folder / "env.tar.gz"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(archive, "w:gz") as file:
        file.add(python, "bin/python")
    return archive


@pytest.mark.long
def test_spark_submit_replays_a_pipeline_on_executors_of_their_own(game, tmp_path):
    home, output = spark_home(tmp_path), tmp_path / "results"
    jars = ",".join(map(str, kafka_source_jars()))
    submitted = subprocess.run(
        [
            *(home / "bin" / "spark-submit", "--master", "local-cluster[1,2,1024]", "--jars", jars),
            *("--archives", f"{packed(tmp_path)}#env", "--py-files", EXAMPLE),
            *(ROOT / "services" / "replay.py", "example", "--operator", "pops-per-minute"),
            *("--output", f"parquet:{output}"),
        ],
        env={
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": game.config.bootstrap_servers,
            "PYSPARK_PYTHON": "./env/bin/python",
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert submitted.returncode == 0, (submitted.stdout + submitted.stderr)[-4_000:]
    read = pl.read_parquet(output / "pops-per-minute" / "panes" / "*.parquet")
    rows = read.drop("retracted", "log_partition", "log_offset").to_dicts()
    assert sorted(map(_shown, rows)) == sorted(map(_shown, game.results("pops-per-minute")))

    told = [decode(value) for _, value in game.committed(game.plan.stats)]
    of_replay = [each for each in told if each.service == "replay"]
    assert of_replay[-1].stopped
    shown = [each for record in of_replay for each in record.replays]
    ends = resolve(game.admin, game.plan).ends
    assert {Partition(each.topic, each.partition): each.total for each in shown} == ends
    assert all(0 <= each.done <= each.total for each in shown)


def _shown(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)
