"""PostgreSQL in a container, and schemas of it as places for sinks."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any
from urllib.parse import quote

# Its image is not everywhere; the containers are stopped by those who start them.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

import psycopg
from testcontainers.community.postgres import PostgresContainer

from tests.sinks.places import Place, database_rows
from tidemark.embedded.broker import free_port
from tidemark.sinks.postgres import PostgresSink

_START_S = 60.0
_IMAGE = os.environ.get("POSTGRES_IMAGE", "postgres:17-bookworm")


class Postgres:
    """A server that can be restarted, at the same port."""

    def __init__(self, container: PostgresContainer, port: int) -> None:
        self._container = container
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
        self._container.get_wrapped_container().stop(timeout=10)

    def start(self) -> None:
        """Start it again."""
        self._container.get_wrapped_container().start()

    def wait_until_it_serves(self) -> None:
        """Wait for the server at its port: an image may have another while it makes the database.

        That one answers inside of the container, which is where testcontainers asks.
        """
        deadline_s = time.monotonic() + _START_S
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
    made = PostgresContainer(_IMAGE, driver=None).with_bind_ports(5432, port)
    with made as container:
        server = Postgres(container, port)
        server.wait_until_it_serves()
        yield server
