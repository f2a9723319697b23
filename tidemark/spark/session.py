"""A Spark session with the Kafka source, a quiet log, and a temporary folder of its own.

Spark's files (shuffles, blocks, the output of the JVM) go into that folder, which is deleted with
the session.  Under ``spark-submit`` the JVM runs already.  Then the submitter sets master, memory
and jars; this module sets only the options that replays need.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.embedded.java import java
from tidemark.embedded.processes import last_words
from tidemark.embedded.spark_jars import kafka_source_jars
from tidemark.errors import ConfigurationError

_SUBMITTED = "PYSPARK_GATEWAY_PORT"

# A row of an Arrow batch is a segment or a raw record; the size in bytes fits both.
_BATCH_BYTES, _BATCH_ROWS = 16 * 2**20, 10_000

# The default, 200, is for clusters; with few cores most of the tasks would be empty.
_LOCAL_SHUFFLE = 16

_SQL = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_BATCH_BYTES),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH_ROWS),
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def spark_session(master: str, memory: str) -> Iterator[SparkSession]:
    """Yield a session; end the session and its JVM afterwards.

    Args:
        master: as in ``spark.master``.
        memory: of the JVM, which runs the driver and, with a local master, the executors.  The
            memory of Python processes comes on top.

    Raises:
        ConfigurationError: Java or the jars are missing, or the JVM does not start.
    """
    if _SUBMITTED in os.environ:
        yield _submitted()
        return
    java()
    for name in ("py4j", "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).setLevel(logging.WARNING)  # they log every connection that closes
    # A JVM that is killed closes the connection; the error of the batch says so in one line.
    AccumulatorTCPServer.handle_error = _no_error  # type: ignore[assignment, method-assign]
    with tempfile.TemporaryDirectory(prefix="tidemark-spark-") as folder:
        spark = _started(master, memory, Path(folder))
        gateway = spark.sparkContext._gateway
        try:
            yield spark
        finally:
            _stop(spark)
            _end_jvm(gateway)


def _no_error(*_: object) -> None:
    """Print no stack trace when a connection closes."""


def _stop(spark: SparkSession) -> None:
    """Stop a session; its JVM may have ended before."""
    try:
        spark.stop()
    except (Py4JError, ConnectionError):
        logging.getLogger("tidemark").debug("the JVM of Spark had ended", exc_info=True)


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
        with _output_to(log):
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
        "spark.python.daemon.module": "tidemark.spark.services.worker_daemon",
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
            # Local tasks can import what the driver can import: the modules of the pipeline.
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path),
        }
    return settings


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Redirect stdout and stderr to a file while a JVM starts.

    A JVM that cannot start writes the reason to its stdout.
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
    """End the JVM and wait for it, so that nothing writes to its folder any more."""
    process = getattr(gateway, "proc", None)
    gateway.shutdown()  # type: ignore[attr-defined]
    if process is not None:
        process.stdin.close()  # the JVM ends with this pipe
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # else the next session uses this JVM
