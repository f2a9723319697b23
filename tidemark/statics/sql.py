"""Reads the rows of a static table from a database: the result of a query, as JSON objects.

Of PostgreSQL, values of types without a form in JSON are texts as the database writes them.
"""

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from tidemark.errors import ConfigurationError, InfrastructureError, without_password
from tidemark.plan.static_table import SQLITE, StaticTable
from tidemark.statics.columns import StaticColumns

if TYPE_CHECKING:  # psycopg is an extra
    from psycopg.abc import AdaptContext, Buffer

_CONNECT_S = 10
_OPTIONS = (
    "-c statement_timeout=60s -c timezone=UTC -c datestyle=ISO -c intervalstyle=iso_8601 "
    "-c default_transaction_read_only=on"
)
_AWAY = ("08", "53", "57", "55", "40", "58")  # SQLSTATE classes that a retry may heal
_NATIVE = frozenset(
    (
        *("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric"),
        *("text", "varchar", "bpchar", "name", "uuid", "bytea"),
        *("date", "time", "timetz", "timestamp", "timestamptz"),
    )
)
"""The types of PostgreSQL that are Python values with a form in JSON, or bytes."""


def query_rows(table: StaticTable, columns: StaticColumns) -> list[bytes]:
    """Return the rows of a query, each as a JSON object.

    Raises:
        ConfigurationError: the database refuses the query, or its rows do not fit the columns.
        InfrastructureError: the database does not answer.
    """
    assert table.query is not None
    if table.kind == SQLITE:
        return _of_sqlite(table, table.query, columns)
    return _of_postgresql(table, table.query, columns)


def _of_sqlite(table: StaticTable, query: str, columns: StaticColumns) -> list[bytes]:
    path, what = table.path.absolute(), columns.what
    if not path.is_file():
        raise ConfigurationError(f"{what}: there is no such file in {path.parent}")
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            cursor = connection.execute(query)
            return columns.objects([each[0] for each in cursor.description or ()], cursor)
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise InfrastructureError(f"{what}: {error}") from None
        raise ConfigurationError(f"{what}: {error}") from None
    except sqlite3.Error as error:
        raise ConfigurationError(f"{what}: {error}") from None


def _of_postgresql(table: StaticTable, query: str, columns: StaticColumns) -> list[bytes]:
    what = columns.what
    try:
        import psycopg
        import psycopg.conninfo
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"{what}: psycopg is not installed: pip install 'tidemark-streams[sinks]'"
        ) from None
    try:
        own = psycopg.conninfo.conninfo_to_dict(table.address).get("options") or ""
        options = f"{own} {_OPTIONS}".strip()
        with (
            # psycopg gives texts of a database with the encoding SQL_ASCII as bytes otherwise.
            psycopg.connect(
                table.address,
                connect_timeout=_CONNECT_S,
                options=options,
                client_encoding="UTF8",
            ) as connection,
            connection.cursor() as cursor,
        ):
            _load_texts(cursor)
            cursor.execute(query.encode())
            return columns.objects([each.name for each in cursor.description or ()], cursor)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{what}: a text is no UTF-8: {error}") from None
    except psycopg.Error as error:
        text = f"{what}: {without_password(table.address, str(error).strip())}"
        state = error.sqlstate
        is_unread = isinstance(error, psycopg.DataError)  # such as a date beyond the years
        if not is_unread and (state is None or state.startswith(_AWAY)):
            raise InfrastructureError(text) from None
        raise ConfigurationError(text) from None


def _load_texts(context: "AdaptContext") -> None:
    """Make a cursor return JSON as it is, and values without a form in JSON as texts."""
    from psycopg import adapters
    from psycopg.adapt import Loader
    from psycopg.types.string import TextLoader

    class JsonLoader(Loader):
        """Returns a JSON document without change, whatever its numbers are."""

        def load(self, data: "Buffer") -> msgspec.Raw:
            return msgspec.Raw(bytes(data))

    for each in adapters.types:
        if each.name in ("json", "jsonb"):
            context.adapters.register_loader(each.oid, JsonLoader)
        elif each.name not in _NATIVE:
            context.adapters.register_loader(each.oid, TextLoader)
