"""A Spark session: quiet, in a folder of its own, with the Kafka source at hand.

What Spark leaves on disk (shuffles, blocks, the JVM's own words) goes into one temporary folder
that is gone with the session.  Under ``spark-submit`` the JVM is there already: then master,
memory and jars are the submitter's business, and only what replays rest on is set.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.embedded.java import java
from tidemark.embedded.processes import last_words
from tidemark.embedded.spark_jars import kafka_source_jars
from tidemark.errors import ConfigurationError

_SUBMITTED = "PYSPARK_GATEWAY_PORT"

# A row of an Arrow batch is a segment or a raw record: sized by bytes, for both.
_BATCH_BYTES, _BATCH_ROWS = 16 * 2**20, 10_000

# The default, 200, is for clusters; with few cores most of them would be tasks of nothing.
_LOCAL_SHUFFLE = 16

_SQL = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_BATCH_BYTES),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH_ROWS),
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def spark_session(master: str, memory: str) -> Iterator[SparkSession]:
    """Give a session and end it, its JVM too; ``master`` as in ``spark.master``.

    ``memory``: of the JVM that holds the driver and, with a local master, the executors; Python's
    is beside it.

    Raises:
        ConfigurationError: no Java, no jars, or a JVM that does not start.
    """
    if _SUBMITTED in os.environ:
        yield _submitted()
        return
    java()
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every connection it closes
    with tempfile.TemporaryDirectory(prefix="tidemark-spark-") as folder:
        spark = _started(master, memory, Path(folder))
        gateway = spark.sparkContext._gateway
        try:
            yield spark
        finally:
            spark.stop()
            _end_jvm(gateway)


def _submitted() -> SparkSession:
    spark = SparkSession.builder.getOrCreate()
    for name, value in _SQL.items():
        spark.conf.set(name, value)
    return spark


def _started(master: str, memory: str, folder: Path) -> SparkSession:
    log = folder / "jvm.log"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("tidemark")
    for name, value in _settings(master, memory, folder).items():
        builder = builder.config(name, value)
    try:
        with _words_to(log):
            return builder.getOrCreate()
    except PySparkException as error:
        raise ConfigurationError(f"Spark does not start: {last_words(log)}") from error


def _settings(master: str, memory: str, folder: Path) -> dict[str, str]:
    settings = {
        **_SQL,
        "spark.driver.memory": memory,
        "spark.jars": ",".join(map(str, kafka_source_jars())),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # A task runs one interpreter on one core.
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={files(__package__).joinpath('log4j2.properties')} "
            f"-Djava.io.tmpdir={folder}"
        ),
    }
    if master.startswith("local"):
        loopback = "127.0.0.1"
        settings |= {
            "spark.sql.shuffle.partitions": str(_LOCAL_SHUFFLE),
            "spark.driver.host": loopback,
            "spark.driver.bindAddress": loopback,
            # What the driver can import, the tasks beside it can: the pipeline's own modules.
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path),
        }
    return settings


@contextmanager
def _words_to(log: Path) -> Iterator[None]:
    """Let a JVM that starts inside write to a file instead of the terminal.

    One that cannot start says so on its stdout.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    own = [(stream, os.dup(stream)) for stream in (1, 2)]
    with log.open("wb") as file:
        for stream, _ in own:
            os.dup2(file.fileno(), stream)
    try:
        yield
    finally:
        for stream, terminal in own:
            os.dup2(terminal, stream)
            os.close(terminal)


def _end_jvm(gateway: object) -> None:
    """Wait until the JVM is gone, so that nothing writes into its folder any more."""
    process = getattr(gateway, "proc", None)
    gateway.shutdown()  # type: ignore[attr-defined]
    if process is not None:
        process.stdin.close()  # it ends with the pipe
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # else the next session looks for this one
