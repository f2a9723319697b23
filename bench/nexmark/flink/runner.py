"""Flink SQL on the same topics, in one process with two slots, exactly once."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from confluent_kafka import Message

from bench.nexmark.flink.sql import FlinkQuery, statements
from bench.nexmark.on_kafka import Input, KafkaRun, children_s, messages
from bench.nexmark.query import Query
from bench.nexmark.reference import Reference
from tidemark.errors import InfrastructureError
from tidemark.plan.topics import raw_topic
from tidemark.runtime.client import topics

_HERE = Path(__file__).parent
_RUN_S = 900.0
_OPENED = ("java.lang", "java.util", "java.nio", "java.util.concurrent", "java.net", "java.time")
_JVM = [
    "-Xmx2g",
    "-XX:+UseG1GC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    *(option for each in _OPENED for option in ("--add-opens", f"java.base/{each}=ALL-UNNAMED")),
]


def flink_folder() -> Path:
    """Return the folder of Flink's jars, under ``BENCH_WORK``."""
    return Path(os.environ.get("BENCH_WORK") or Path(tempfile.gettempdir()) / "bench") / "nexmark"


class Flink:
    """Flink with its jars and the program that runs SQL."""

    def __init__(self, folder: Path) -> None:
        """Download jars by Maven and compile the program, unless ``folder`` has them.

        Raises:
            subprocess.CalledProcessError: Maven or the compiler failed.
        """
        jars, classes = folder / "jars", folder / "classes"
        self._path = f"{classes}:{jars}/*"
        if not (classes / "SqlJob.class").is_file():
            _compile(jars, classes)

    def run(
        self, name: str, query: Query, flink: FlinkQuery, source: Input, reference: Reference
    ) -> KafkaRun:
        """Run a query and compare its results; ``read_s`` is the time that the job ran.

        Raises:
            InfrastructureError: the job failed.
        """
        results = f"flink-{name}-{time.time_ns()}"
        topics.ensure_raw(source.admin, [raw_topic(results, source.partitions)], -1)
        used = {kind: source.topics[kind] for kind in query.reads}
        made = statements(query, flink, used, results, source.broker)
        before_s = children_s()
        ran_s = self._ran_s(made)
        cpu_s = children_s() - before_s
        found = _last(messages(source, results), has_key=flink.has_key)
        compared = reference.compare(flink.wanted or query.sql, flink.results, found)
        return KafkaRun(compared, 0, ran_s, cpu_s)

    def _ran_s(self, made: Sequence[str]) -> float:
        """Run statements; return the seconds that the job ran."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "job.sql"
            script.write_text(";\n".join(made), encoding="utf-8")
            ran = subprocess.run(
                ["java", *_JVM, "-cp", self._path, "SqlJob", str(script), folder],
                capture_output=True,
                text=True,
                timeout=_RUN_S,
                check=False,
            )
        found = re.search(r"ran ([0-9.]+) s", ran.stdout)
        if ran.returncode or found is None:
            raise InfrastructureError(f"Flink failed: {(ran.stderr or ran.stdout)[-2000:]}")
        return float(found[1])


def _compile(jars: Path, classes: Path) -> None:
    copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    subprocess.run(["mvn", "-q", "-B", "-f", str(_HERE / "pom.xml"), *copy], check=True)
    source = str(_HERE / "SqlJob.java")
    subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), source], check=True)


def _last(found: Sequence[Message], *, has_key: bool) -> pl.DataFrame:
    """Return all rows, or with a key the last row of each key that is not deleted."""
    rows = {each.key() if has_key else number: each.value() for number, each in enumerate(found)}
    lines = b"\n".join(value for value in rows.values() if value is not None)
    return pl.read_ndjson(lines, infer_schema_length=None)
