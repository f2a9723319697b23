"""A scenario in containers: a broker, and services in the deployed image.

The broker has two addresses: one for containers of its network, and one for this machine.  It
advertises to each client the address that the client can reach.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

from docker.errors import APIError
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tidemark.errors import InfrastructureError
from tidemark.runtime.client.broker_probe import await_broker
from tidemark.runtime.config import Config
from tidemark.testing.on_broker import OnBroker, Service

_INSIDE, _OUTSIDE = 9092, 9094
_START_S = 240.0
_LISTENERS = "/tmp/listeners"
_PIPELINES = "/pipelines"

# The outside address is known only when the container runs, but the broker needs it at its start.
# So the container waits for a file with the address before it starts the broker.
_BROKER_COMMAND = (
    f"until [ -f {_LISTENERS} ]; do sleep 0.1; done; . {_LISTENERS}; exec /etc/kafka/docker/run"
)
_BROKER = {
    "CLUSTER_ID": "dGlkZW1hcmstdGVzdGluZw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": f"INSIDE://:{_INSIDE},CONTROLLER://:9093,OUTSIDE://:{_OUTSIDE}",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
    "KAFKA_TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS": "1000",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_HEAP_OPTS": "-Xmx512m -Xms256m -XX:TieredStopAtLevel=1",
}


class Kafka:
    """A context manager that runs a new, empty broker in a container, on its own network.

    ``address``: for clients on this machine.  ``inside``: for containers of ``network``.
    """

    def __init__(self, image: str = "apache/kafka:4.3.1") -> None:
        """``image``: configured like ``apache/kafka``."""
        self.network = Network()
        self.inside = f"kafka:{_INSIDE}"
        self.address = ""
        self._container = (
            DockerContainer(image)
            .with_network(self.network)
            .with_network_aliases("kafka")
            .with_exposed_ports(_OUTSIDE)
            .with_envs(**_BROKER)
            .with_command(["bash", "-c", _BROKER_COMMAND])
        )

    def __enter__(self) -> Self:
        """Start the broker and wait until it answers."""
        self.network.create()
        try:
            self._start()
        except BaseException:  # also an interrupt: no container may be left
            self._end()
            raise
        return self

    def _start(self) -> None:
        running = self._container.start()
        host, port = running.get_container_host_ip(), running.get_exposed_port(_OUTSIDE)
        self.address = f"{host}:{port}"
        listeners = f"INSIDE://{self.inside},OUTSIDE://{self.address}"
        script = f"export KAFKA_ADVERTISED_LISTENERS={listeners}\n"
        running.copy_into_container(script.encode(), _LISTENERS)
        _await_broker(self.address, running)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Remove the container and its network."""
        self._end()

    def _end(self) -> None:
        self._container.stop()
        self.network.remove()


class InContainers(OnBroker):
    """A pipeline whose services run in containers; a crash is ``docker kill``."""

    def __init__(
        self,
        pipeline: str,
        kafka: Kafka,
        image: str,
        *,
        raw_partitions: int = 1,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 240.0,
    ) -> None:
        """Create the topics of a pipeline and start its services.

        Args:
            pipeline: the module, as ``PIPELINE`` names it.  A file is copied into each container;
                any other module must be in the image.
            kafka: a running broker without topics of the pipeline.
            image: of the services.
            raw_partitions: number of partitions of each raw topic.
            settings: additional environment of the services.
            timeout_s: longest duration of a step.
        """
        self._network, self._image = kafka.network, image
        self._file = Path(pipeline) if pipeline.endswith(".py") else None
        inside = {"KAFKA_BOOTSTRAP_SERVERS": kafka.inside}
        if self._file is not None:
            inside["PIPELINE"] = self._file.stem
        super().__init__(
            pipeline,
            kafka.address,
            raw_partitions=raw_partitions,
            settings={**inside, **(settings or {})},
            launch=self._launched,
            timeout_s=timeout_s,
        )

    def _launched(self, service: str, environment: Mapping[str, str], log: Path) -> Service:
        made = (
            DockerContainer(self._image)
            .with_network(self._network)
            .with_envs(**environment)
            .with_command(["tidemark", "run", service])
        )
        if self._file is not None:
            made.with_copy_into_container(self._file, f"{_PIPELINES}/{self._file.name}")
        return _ContainerService(made, log)


class _ContainerService:
    """A service in a container; its output goes to a log file."""

    def __init__(self, made: DockerContainer, log: Path) -> None:
        try:
            self._container = made.start()
        except BaseException:  # also an interrupt
            made.stop()
            raise
        self._copying = Thread(target=self._copy, args=(log,), daemon=True)
        self._copying.start()

    def _copy(self, log: Path) -> None:
        output = self._container.get_wrapped_container().logs(stream=True, follow=True)
        with log.open("ab", buffering=0) as file:
            for each in output:
                file.write(each)

    def kill(self) -> None:
        """End the service at once."""
        try:
            self._container.get_wrapped_container().kill()
        except APIError:
            if self.poll() is None:  # otherwise it has ended by itself
                raise

    def wait(self) -> int:
        """Wait for the end of the service; remove the container and return the exit status."""
        status = self._container.wait()
        self._copying.join()
        self._container.stop()
        return status

    def poll(self) -> int | None:
        """Return the exit status, None while the service runs."""
        self._container.reload()
        state = self._container.get_wrapped_container().attrs["State"]
        return None if state["Running"] else int(state["ExitCode"])


def _await_broker(address: str, running: DockerContainer) -> None:
    deadline_s = time.monotonic() + _START_S

    def waiting(reason: str) -> None:
        running.reload()
        if running.status != "running" or time.monotonic() > deadline_s:
            log = b"".join(running.get_logs()).decode(errors="replace")
            raise InfrastructureError(f"no broker in a container: {reason}: {log[-2000:]}")

    await_broker(Config(bootstrap_servers=address), waiting)
