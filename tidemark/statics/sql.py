"""Reads the rows of a static table from a database: the result of a query, as JSON objects."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any

import msgspec

from tidemark.errors import ConfigurationError, InfrastructureError, without_password
from tidemark.plan.static_table import SQLITE, StaticTable

Require = Callable[[Sequence[str]], None]

_CONNECT_S = 10
_OPTIONS = "-c statement_timeout=60s -c timezone=UTC -c default_transaction_read_only=on"
_AWAY = ("08", "53", "57", "55", "40", "58")  # SQLSTATE classes that a retry may heal


def query_rows(table: StaticTable, what: str, require: Require) -> list[bytes]:
    """Return the rows of a query, each as a JSON object; ``what``: names the table in errors.

    ``require``: raises ConfigurationError if these names of columns are not those of the table.

    Raises:
        ConfigurationError: the database refuses the query.
        InfrastructureError: the database does not answer.
    """
    assert table.query is not None
    if table.kind == SQLITE:
        return _of_sqlite(table, table.query, what, require)
    return _of_postgresql(table, table.query, what, require)


def _of_sqlite(table: StaticTable, query: str, what: str, require: Require) -> list[bytes]:
    path = table.path.absolute()
    if not path.is_file():
        raise ConfigurationError(f"{what}: there is no such file in {path.parent}")
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            cursor = connection.execute(query)
            names = [each[0] for each in cursor.description or ()]
            require(names)
            return _objects(names, cursor)
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise InfrastructureError(f"{what}: {error}") from None
        raise ConfigurationError(f"{what}: {error}") from None
    except sqlite3.Error as error:
        raise ConfigurationError(f"{what}: {error}") from None


def _of_postgresql(table: StaticTable, query: str, what: str, require: Require) -> list[bytes]:
    try:
        import psycopg
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"{what}: psycopg is not installed: pip install 'tidemark-streams[sinks]'"
        ) from None
    try:
        with (
            psycopg.connect(
                table.address, connect_timeout=_CONNECT_S, options=_OPTIONS
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(query.encode())
            names = [each.name for each in cursor.description or ()]
            require(names)
            return _objects(names, cursor)
    except psycopg.Error as error:
        text = f"{what}: {without_password(table.address, str(error).strip())}"
        state = error.sqlstate
        if state is None or state.startswith(_AWAY):
            raise InfrastructureError(text) from None
        raise ConfigurationError(text) from None


def _objects(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[bytes]:
    encode = msgspec.json.Encoder().encode
    return [encode(dict(zip(names, row, strict=True))) for row in rows]
