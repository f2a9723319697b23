"""A sink to PostgreSQL: tables in a database, exactly once.

COPY writes the rows of a batch to a temporary table, and one INSERT ... ON CONFLICT takes them from
there.  Rows and positions are one transaction.  Lists and structs are jsonb.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl
import psycopg
from psycopg import sql as text
from psycopg.conninfo import conninfo_to_dict

from tidemark.core.windows.pane import REVISION
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks import database, sql
from tidemark.sinks.sink import Batch, Position, RefusedError, UnavailableError
from tidemark.sinks.sql import Dialect, quoted
from tidemark.sinks.table import INSTANT, Table

_TIMEOUTS = "-c lock_timeout=5s -c statement_timeout=60s -c timezone=UTC"
_CONNECT_S = 10
_INSTANT = "%Y-%m-%dT%H:%M:%S%.3fZ"
_NULL = r"\N"

# SQLSTATE classes that a retry may heal: connections, resources, operators, locks, deadlocks.
_BUSY = ("08", "53", "57", "55P03", "40")
_REFUSED = ("22", "23")

DIALECT = Dialect(
    {
        pl.String(): "text",
        pl.Boolean(): "boolean",
        pl.Int64(): "bigint",
        pl.Int32(): "integer",
        pl.Int16(): "smallint",
        pl.Int8(): "smallint",
        pl.UInt32(): "bigint",
        pl.UInt16(): "integer",
        pl.UInt8(): "smallint",
        pl.UInt64(): "numeric(20,0)",
        pl.Float64(): "double precision",
        pl.Float32(): "real",
        INSTANT: "timestamp with time zone",
        pl.Date(): "date",
    },
    nested="jsonb",
    decimal=lambda dtype: f"numeric({dtype.precision},{dtype.scale})",
    parameter="%s",
)


class PostgresSink:
    """The tables of a database, in the first schema of the connection's search path."""

    every_ms = 0
    dialect = DIALECT

    def __init__(self, url: str) -> None:
        """``url``: as libpq reads it; the sink connects at the first use.

        Raises:
            ConfigurationError: libpq does not understand ``url``.
        """
        self._url = url
        try:
            self._options = conninfo_to_dict(url).get("options") or ""
        except psycopg.ProgrammingError as error:
            raise ConfigurationError(f"TIDEMARK_SINK: {_line(error)}") from None
        self._known: psycopg.Connection | None = None
        self._staged: set[str] = set()

    @property
    def _db(self) -> psycopg.Connection:
        if self._known is None or self._known.closed:
            self._staged.clear()
            self._known = psycopg.connect(
                self._url,
                autocommit=True,
                client_encoding="utf8",
                connect_timeout=_CONNECT_S,
                options=f"{_TIMEOUTS} {self._options}",
            )
        return self._known

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, if any."""
        done = self._execute(statement, values)
        return done.fetchall() if done.description else []

    def change(self, statement: str, *values: object) -> int:
        """Run a statement and return the number of changed rows."""
        return self._execute(statement, values).rowcount

    def _execute(self, statement: str, values: Sequence[object]) -> psycopg.Cursor:
        return self._db.execute(statement, values or None)

    def columns(self, table: str) -> Mapping[str, str]:
        """Return a table's columns and their types."""
        return dict(self.run(_COLUMNS, quoted(table)))

    def key(self, table: str) -> list[str]:
        """Return the columns of a table's primary key, in order."""
        return [name for (name,) in self.run(_KEY, quoted(table))]

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create tables, add new columns; raise ConfigurationError for tables that do not fit."""
        try:
            with self._db.transaction():
                # Services may start together: one creates the tables, the others wait for it.
                self.run("SELECT pg_advisory_xact_lock(hashtext(%s))", sql.POSITIONS)
                for table in database.prepare(self, tables):
                    for on, comment in sql.comments(table):
                        self._db.execute(text.SQL(f"COMMENT ON {on} IS {{}}").format(comment))
        except psycopg.Error as error:
            known = _classified(error)
            raise (known if isinstance(known, UnavailableError) else _refused(error)) from error

    def positions(self, partitions: Collection[Partition]) -> Mapping[Partition, Position]:
        """Return the positions of partitions, without those that have none."""
        try:
            return database.positions(self, partitions)
        except psycopg.Error as error:
            raise _classified(error) from error

    def write(self, batches: Sequence[Batch]) -> None:
        """Write all batches in one transaction."""
        try:
            with self._db.transaction():
                database.write(self, batches)
        except psycopg.Error as error:
            self._staged.clear()  # the rollback also drops the tables that this transaction created
            raise _classified(error) from error

    def put(self, batch: Batch) -> None:
        """Delete the retracted windows of a batch, then insert or replace its rows."""
        withdrawn, rows = batch.newest()
        table = batch.table
        columns = list(table.columns)
        if withdrawn.height:
            staged = self._stage(table, withdrawn.select(*table.window, REVISION))
            self.run(sql.withdraw(table, staged))
            self.run(f"TRUNCATE {staged}")
        if rows.height:
            staged = self._stage(table, rows.select(columns).sort(table.key))
            self.run(sql.upsert(table, f"SELECT {sql.names(columns)} FROM {staged}"))

    def _stage(self, table: Table, rows: pl.DataFrame) -> str:
        """Copy rows into the table's temporary twin, which is empty at each transaction's start."""
        staged = quoted(f"staged_{table.name}"[:63])
        if table.name not in self._staged:
            columns = ", ".join(
                f"{quoted(name)} {DIALECT.type_of(name, dtype)}"
                for name, dtype in table.columns.items()
            )
            self.run(f"CREATE TEMP TABLE IF NOT EXISTS {staged} ({columns}) ON COMMIT DELETE ROWS")
            self._staged.add(table.name)
        options = f"FORMAT csv, NULL '{_NULL}'"
        statement = f"COPY {staged} ({sql.names(rows.columns)}) FROM STDIN ({options})"
        with self._db.cursor().copy(statement) as copy:
            copy.write(_csv(rows))
        return staged

    def close(self) -> None:
        """Close the connection."""
        if self._known is not None:
            self._known.close()


_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
_KEY = """
    SELECT attname FROM pg_index, unnest(indkey) WITH ORDINALITY AS part (number, place)
    JOIN pg_attribute ON attnum = number
    WHERE indrelid = to_regclass(%s) AND attrelid = indrelid AND indisprimary ORDER BY place
"""


def _csv(rows: pl.DataFrame) -> str:
    texts = sql.instants(sql.json_texts(rows), _INSTANT)
    # All texts are quoted, so that no text is read as NULL.
    return texts.write_csv(include_header=False, null_value=_NULL, quote_style="non_numeric")


def _classified(error: psycopg.Error) -> Exception:
    state = error.sqlstate or "08"  # a broken connection has no SQLSTATE
    line = f"PostgreSQL: {_line(error)}"
    if state.startswith(_BUSY):
        return UnavailableError(line)
    return RefusedError(line) if state.startswith(_REFUSED) else error


def _refused(error: psycopg.Error) -> ConfigurationError:
    return ConfigurationError(f"PostgreSQL: {_line(error)}")


def _line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
