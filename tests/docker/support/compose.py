"""docker-compose.yml in a project of its own: ports, image and volumes are its alone."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psycopg

from tests.kafka.support.stack import wait_until
from tests.patience import PATIENCE_S
from tidemark.embedded.broker import free_port

ROOT = Path(__file__).parents[3]
SERVICES = ("ingest", "windowing", "sessions", "joins", "patterns", "sink")
_PRODUCER = "/opt/kafka/bin/kafka-console-producer.sh"
_PASSWORD = "e2e"
_NOT_OF_RUN = "label=com.docker.compose.oneoff=False"
_ASK_HEALTH = (
    "from urllib.request import urlopen; "
    "print(urlopen('http://127.0.0.1:8080/health/ready').read().decode())"
)


class Compose:
    """A stack of containers; a context that leaves neither container nor volume behind."""

    def __init__(self, project: str, image: str, replay_image: str, **settings: str) -> None:
        """``settings``: further variables of docker-compose and of docker-compose.yml."""
        self._label = f"label=com.docker.compose.project={project}"
        self.kafka_port, self.postgres_port = free_port(), free_port()
        self._env = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": project,
            "KAFKA_PORT": str(self.kafka_port),
            "POSTGRES_PORT": str(self.postgres_port),
            "POSTGRES_PASSWORD": _PASSWORD,
            "TIDEMARK_IMAGE": image,
            "TIDEMARK_REPLAY_IMAGE": replay_image,
            **settings,
        }

    def __enter__(self) -> "Compose":
        return self

    def __exit__(self, *_: object) -> None:
        self("down", "--volumes", "--timeout", "5")

    def __call__(self, *arguments: str) -> str:
        """Run docker-compose; return what it printed."""
        return run(*command(), *arguments, cwd=ROOT, env=self._env)

    def up(self, *arguments: str) -> None:
        """Bring all up, and wait until every service says that it is ready."""
        self("up", "--detach", *arguments)
        wait_until(self.is_healthy, "every container to be healthy")

    def is_healthy(self, *services: str) -> bool:
        """Say whether services are ready, by default all that go on."""
        wanted = set(services or ("kafka", "postgres", *SERVICES))
        shown = self._shown('{{.Label "com.docker.compose.service"}} {{.Status}}')
        states = [line.partition(" ") for line in shown]
        asked = [(service, status) for service, _, status in states if service in wanted]
        return {service for service, _ in asked} == wanted and all(
            status.endswith("(healthy)") for _, status in asked
        )

    def containers(self, service: str) -> list[str]:
        """Return the ids of a service's containers."""
        return self._shown("{{.ID}}", "--filter", f"label=com.docker.compose.service={service}")

    def _shown(self, form: str, *filters: str) -> list[str]:
        """Return a line for each container, but not for those of `run`.

        The engine answers in a twentieth of the time that docker-compose takes.
        """
        words = ("--filter", self._label, "--filter", _NOT_OF_RUN, *filters, "--format", form)
        return run("docker", "ps", "--all", *words).splitlines()

    def log(self, service: str, *options: str) -> str:
        """Return what the containers of a service have written, with options of `docker logs`."""
        logs = [("docker", "logs", *options, each) for each in self.containers(service)]
        return "".join(run(*words, errors=True) for words in logs)

    def crash(self, service: str) -> None:
        """End a service's first process as a fault would: something has to start it again."""
        (container, *_) = self.containers(service)
        os.kill(int(inspect(container)["State"]["Pid"]), signal.SIGKILL)

    def partitions(self, container: str) -> list[str]:
        """Return the partitions that a container of a service says it owns."""
        told = json.loads(run("docker", "exec", container, "python", "-c", _ASK_HEALTH))
        return list(told["partitions"])

    def producer(self, topic: str) -> subprocess.Popen[bytes]:
        """Start the console producer; what is written to it goes to one partition."""
        words = ["--bootstrap-server", "kafka:9092", "--topic", topic]
        for word in ("parse.key=true", "key.separator=|"):
            words += ["--reader-property", word]
        (kafka,) = self.containers("kafka")
        return subprocess.Popen(
            ["docker", "exec", "-i", kafka, _PRODUCER, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )

    def produce(self, topic: str, lines: Iterable[bytes]) -> None:
        """Write lines to one partition of a topic."""
        producer = self.producer(topic)
        producer.communicate(keyed(lines), timeout=PATIENCE_S)
        assert producer.returncode == 0

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what a statement finds in PostgreSQL, by the port on this machine."""
        address = f"postgresql://tidemark:{_PASSWORD}@127.0.0.1:{self.postgres_port}/tidemark"
        with psycopg.connect(address, options="-c timezone=UTC", client_encoding="utf8") as db:
            return db.execute(statement.encode()).fetchall()

    def volumes(self) -> list[str]:
        """Return the names of the volumes that are there."""
        return run("docker", "volume", "ls", "-q", "--filter", self._label).split()


def keyed(lines: Iterable[bytes]) -> bytes:
    """Return lines for the console producer, all with one key, which keeps them in order."""
    return b"".join(b"key|" + line + b"\n" for line in lines)


def command() -> list[str]:
    """Return how docker-compose is called here."""
    return ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]


def inspect(container: str) -> Any:
    """Return what the engine knows of a container."""
    return json.loads(run("docker", "inspect", container))[0]


def run(
    *words: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    errors: bool = False,
) -> str:
    """Run a command; return what it printed, raise with all it said where it fails.

    ``errors``: return what it printed to stderr, too.
    """
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout + (done.stderr if errors else "")
