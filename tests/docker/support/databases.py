"""PostgreSQL in a container, and schemas of it as places for sinks.

With POSTGRES_BIN, the folder of ``initdb`` and ``pg_ctl``, the server is a process without a
container.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from urllib.parse import quote

# Its image is not everywhere; the containers are stopped by those who start them.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

import psycopg
from testcontainers.community.postgres import PostgresContainer

from tests.patience import PATIENCE_S
from tests.sinks.places import Place, database_rows
from tidemark.embedded.broker import free_port
from tidemark.sinks.databases.postgres import PostgresSink

_IMAGE = os.environ.get("POSTGRES_IMAGE", "postgres:17-bookworm")


BINARIES = os.environ.get("POSTGRES_BIN", "")


class _Server(Protocol):
    def stop(self) -> None: ...

    def start(self) -> None: ...


class _Container:
    def __init__(self, container: PostgresContainer) -> None:
        self._container = container

    def stop(self) -> None:
        self._container.get_wrapped_container().stop(timeout=10)

    def start(self) -> None:
        self._container.get_wrapped_container().start()


class _Process:
    """A server in a folder; it runs as user postgres if the tests run as root, which it refuses."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            subprocess.run(["chown", self._user, str(folder)], check=True)
        self._run("initdb", "-U", "test", "-A", "scram-sha-256", "--pwfile", str(_password(folder)))

    def _run(self, command: str, *arguments: str) -> None:
        whole = [f"{BINARIES}/{command}", "-D", str(self._folder / "data"), *arguments]
        subprocess.run(whole, check=True, stdout=subprocess.DEVNULL, user=self._user, cwd="/")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "fast", "stop")

    def start(self) -> None:
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-w", "-o", options, "-l", log, "start")


def _password(folder: Path) -> Path:
    file = folder / "password"
    file.write_text("test")
    file.chmod(0o644)
    return file


class Postgres:
    """A server that can be restarted, at the same port."""

    def __init__(self, server: _Server, port: int) -> None:
        self._server = server
        self._address = f"postgresql://test:test@127.0.0.1:{port}/test"
        self._numbers = count()

    def url(self, schema: str = "public") -> str:
        """Return the address of a schema."""
        return f"{self._address}?options={quote(f'-c search_path={schema}')}"

    def place(self) -> Place:
        """Return a new schema as a place for a sink."""
        schema = f"place_{next(self._numbers)}"
        self.run(self.url(), f"CREATE SCHEMA {schema}")
        url = self.url(schema)
        run = partial(self.run, url)
        return Place(lambda: PostgresSink(url), partial(database_rows, run), run)

    def run(self, url: str, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows, if it has any."""
        with psycopg.connect(url, autocommit=True, client_encoding="utf8") as db:
            done = db.execute(statement.encode())
            return done.fetchall() if done.description else []

    def stop(self) -> None:
        """Stop the server as at a shutdown of its machine."""
        self._server.stop()

    def start(self) -> None:
        """Start it again; return once it serves."""
        self._server.start()
        self.wait_until_it_serves()

    def wait_until_it_serves(self) -> None:
        """Wait for the server at its port: an image may have another while it makes the database.

        That one answers inside of the container, which is where testcontainers asks.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.run(self.url(), "SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.1)
            else:
                return


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Give a server that is gone afterwards."""
    port = free_port()
    if BINARIES:
        with TemporaryDirectory(prefix="postgres") as folder:
            process = _Process(Path(folder), port)
            process.start()
            try:
                server = Postgres(process, port)
                server.run(
                    f"postgresql://test:test@127.0.0.1:{port}/postgres", "CREATE DATABASE test"
                )
                yield server
            finally:
                process.stop()
        return
    made = PostgresContainer(_IMAGE, driver=None).with_bind_ports(5432, port)
    with made as container:
        server = Postgres(_Container(container), port)
        server.wait_until_it_serves()
        yield server
