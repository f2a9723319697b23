"""A replay by ``spark-submit``, as docs/replay.md shows it: the pipeline travels as a file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyspark
from live import HERE

from tidemark.spark.jars import kafka_source_jars

ROOT = HERE.parents[1]
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def test_spark_submit_replays_a_pipeline(game, tmp_path):
    output = tmp_path / "results"
    jars = ",".join(map(str, kafka_source_jars()))
    submitted = subprocess.run(
        [
            *(SUBMIT, "--master", "local[2]", "--jars", jars, "--py-files", HERE / "example.py"),
            *(ROOT / "services" / "replay.py", "example", "--operator", "pops-per-minute"),
            *("--output", f"parquet:{output}"),
        ],
        env={
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": game.config.bootstrap_servers,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
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


def _shown(row: dict) -> str:
    return json.dumps(row, sort_keys=True)
