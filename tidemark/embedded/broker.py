"""Runs one Kafka broker (KRaft, one JVM) in a folder of its own.

Formatting a data folder needs a second JVM, and its two files do not depend on ports or folder.  So
one formatted folder is kept in the cache, and new data folders are copies of it.  The broker is
ready when it answers a client.  If it ends before, the error shows the end of its log.
"""

import random
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.embedded.jars import kafka_jars, staging
from tidemark.embedded.java import java
from tidemark.embedded.processes import die_with_parent, last_words, only_one_process
from tidemark.errors import ConfigurationError
from tidemark.runtime.retry import poll

_HOST = "127.0.0.1"
_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_READY_S = 240
_STOP_S = 20
_TRIES = 3  # another process may take a free port between the choice and the bind
_FREE_BYTES = 256 * 2**20

_LOG = "-Dorg.slf4j.simpleLogger."
_SHORT_LIVED = "-XX:TieredStopAtLevel=1"  # half the CPU until it answers, less once it is warm
_TOOL_JVM = ("-Xmx256m", _SHORT_LIVED, f"{_LOG}defaultLogLevel=error")
_BROKER_JVM = (
    "-Xmx768m",
    f"{_LOG}defaultLogLevel=warn",
    f"{_LOG}showDateTime=true",
    f"{_LOG}dateTimeFormat=HH:mm:ss.SSS",
)

# The last lines suit one machine: few internal partitions, for a fast start; open transactions of a
# dead process are aborted within a second of their timeout; a stopped KIP-848 member is noticed
# soon.  Timestamps may be event times of any age, so no record is deleted for its age.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
num.partitions=4
log.retention.ms=-1
log.cleaner.dedupe.buffer.size=16777216
log.cleaner.backoff.ms=1000
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.consumer.min.heartbeat.interval.ms=1000
group.consumer.heartbeat.interval.ms=1000
group.consumer.min.session.timeout.ms=6000
group.consumer.session.timeout.ms=6000
"""

# For a broker that people work with.  With the default of 9 s, a pause of that length would fence
# it, and it might lose the ends of transactions (docs/decisions/0004).  The cost: after a kill, the
# broker serves again only after this time.
_LASTING_SETTINGS = "broker.session.timeout.ms=30000\n"


def free_port() -> int:
    """Return a port that no process listens on.

    It is outside of the range for outgoing connections, one of which could take it.
    """
    while True:
        port = random.randrange(15_000, 32_000)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Return whether the broker could listen on this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True


def command(kafka_class: str, *arguments: str, jvm: Sequence[str] = _TOOL_JVM) -> list[str]:
    """Return the command line that runs a Java class of Kafka."""
    return [java(), *jvm, "-XX:+UseSerialGC", "-cp", f"{kafka_jars()}/*", kafka_class, *arguments]


def prepare(
    folder: Path,
    port: int,
    controller_port: int,
    *,
    short_lived: bool = True,
    extra: Mapping[str, str] | None = None,
) -> list[str]:
    """Prepare a broker's folder and return the command that runs it; a used folder keeps its data.

    Args:
        folder: of data and settings.
        port: of the plaintext listener.
        controller_port: of the controller.
        short_lived: start fast, instead of running fast and surviving pauses.
        extra: additional or replacing settings; `{port}` and `{controller_port}` stand for the
            ports.

    Raises:
        ConfigurationError: the folder cannot be written, or its disk is full.
    """
    settings = folder / "server.properties"
    data = folder / "data"
    jvm = (*_BROKER_JVM, _SHORT_LIVED) if short_lived else _BROKER_JVM
    runs = command("kafka.Kafka", str(settings), jvm=jvm)
    formatted = formatted_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (data / "meta.properties").exists():
            shutil.copytree(formatted, data, dirs_exist_ok=True)
        more = "" if short_lived else _LASTING_SETTINGS
        more += "".join(f"{name}={value}\n" for name, value in (extra or {}).items())
        ports = {"port": port, "controller_port": controller_port}
        settings.write_text((_SETTINGS + more).format(host=_HOST, data=data, **ports))
        free = shutil.disk_usage(data).free
    except OSError as error:
        raise ConfigurationError(f"broker data folder {folder}: {error.strerror}") from error
    if free < _FREE_BYTES:
        raise ConfigurationError(f"broker data folder {folder}: only {free:,} bytes free on disk")
    return runs


def answers(address: str, within_s: float = 1.0) -> bool:
    """Return whether a broker answers at this address."""
    client = AdminClient(
        {"bootstrap.servers": address, "log_level": 0, "reconnect.backoff.max.ms": 100}
    )
    try:
        return bool(client.list_topics(timeout=within_s).brokers)
    except KafkaException:
        return False


def wait_until_ready(address: str, log: Path, check_alive: Callable[[], bool]) -> None:
    """Wait until the broker answers.

    Raises:
        ConfigurationError: it stopped, or does not answer in time; shows the end of its log.
    """

    def is_ready() -> bool:
        if not check_alive():
            raise ConfigurationError(f"the broker stopped: {last_words(log)}")
        return answers(address)

    if not poll(is_ready, for_s=_READY_S):
        raise ConfigurationError(f"no broker at {address} after {_READY_S} s: {last_words(log)}")


class Broker:
    """A broker as a context manager: it runs while the block runs.

    Args:
        folder: of data, settings and log.
        port: for clients; by default a free one.
        extra: additional settings, see `prepare`.
    """

    def __init__(
        self, folder: Path, port: int | None = None, extra: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._extra = extra
        self.log = folder / "broker.log"
        self.address = ""
        self._asked_port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, None if the broker does not run."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        if self._asked_port is not None and not is_free(self._asked_port):
            raise ConfigurationError(
                f"port {self._asked_port} is taken by another process: choose another port"
            )
        for tries_left in reversed(range(_TRIES)):
            try:
                self._start_once()
            except BaseException as error:  # also an interrupt: no process may be left
                self.stop()
                if tries_left == 0 or "already in use" not in str(error):
                    raise
            else:
                return

    def stop(self) -> None:
        """Shut the broker down; kill it after 20 seconds."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _start_once(self) -> None:
        port = self._asked_port or free_port()
        runs = prepare(self.folder, port, free_port(), extra=self._extra)
        self.address = f"{_HOST}:{port}"
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                runs,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C in the terminal must not reach the broker
                preexec_fn=die_with_parent,
            )
        self._process = process
        wait_until_ready(self.address, self.log, lambda: process.poll() is None)

    def __enter__(self) -> "Broker":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def formatted_folder() -> Path:
    """Return the formatted data folder of the cache, created at the first call."""
    jars = kafka_jars()
    folder = jars.with_name(f"{jars.name}-formatted")
    if folder.is_dir():
        return folder
    with only_one_process(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with staging(folder) as stage:
                _format(stage)
    return folder


def _format(data: Path) -> None:
    settings = data.with_name(f"{data.name}.properties")
    settings.write_text(_SETTINGS.format(host=_HOST, port=9092, controller_port=9093, data=data))
    try:
        tool = command("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(settings))
        done = subprocess.run(tool, capture_output=True, text=True, check=False)
    finally:
        settings.unlink()
    if done.returncode:
        raise ConfigurationError(f"broker data folder {data}: not formatted: {done.stderr.strip()}")
