"""A sink to PostgreSQL: tables in a database, exactly once.

COPY writes the rows of a batch to a temporary table, and one INSERT ... ON CONFLICT takes them from
there.  Rows and positions are one transaction.  Lists and structs are jsonb.

If PostgreSQL refuses a batch, a block of PL/pgSQL tries each of its rows in a subtransaction, and
records which of them are refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import polars as pl
import psycopg
from psycopg import sql as text
from psycopg.conninfo import conninfo_to_dict

from tidemark.core.rows.schema import INSTANT
from tidemark.errors import ConfigurationError, InfrastructureError
from tidemark.partition import Partition
from tidemark.sinks.databases import database, row_values, sql
from tidemark.sinks.databases import postgres_catalog as catalog
from tidemark.sinks.databases.conversion import Rules
from tidemark.sinks.databases.database import INDEX, Column
from tidemark.sinks.databases.database_sink import DatabaseSink
from tidemark.sinks.databases.sql import Dialect, quoted
from tidemark.sinks.identifiers import OWN_PREFIX, Identifiers
from tidemark.sinks.sink import Batch, RefusedError, UnavailableError
from tidemark.sinks.table import Table

_TIMEOUTS = "-c lock_timeout=5s -c statement_timeout=60s -c timezone=UTC"
_CONNECT_S = 10
_INSTANT = "%Y-%m-%dT%H:%M:%S%.3fZ"
_NULL = r"\N"

# SQLSTATE classes that a retry may heal: connections, resources, operators, locks, deadlocks, a
# standby that is not yet a primary, a disk, and a table or column that the next prepare creates.
_BUSY = ("08", "53", "57", "55", "40", "25006", "58", "42P01", "42703")
# A value, a constraint, a limit such as the size of a key, a user's trigger or view.
_REFUSED = ("22", "23", "54", "P0", "44")
_REFUSED_NAMES = (
    "data_exception OR integrity_constraint_violation OR program_limit_exceeded OR plpgsql_error "
    "OR raise_exception OR with_check_option_violation"
)
_INTERNAL = "XX"
# libpq gives no SQLSTATE for a connection that fails, only the text.
_WRONG = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "not permitted to log in",
    "permission denied",
    "pg_hba.conf",
    "certificate",
    "does not support SSL",
    "unrecognized configuration parameter",
    "invalid ",  # port number, value of sslmode, value of a parameter, ...
)
_RESOLVES = "could not translate host name"
_TRIED, _FOUND = f"{OWN_PREFIX}tried", f"{OWN_PREFIX}refused"

DIALECT = Dialect(
    Identifiers(
        "PostgreSQL",
        most_bytes=63,
        columns=frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"}),
        prefixes=(OWN_PREFIX,),
        derived=sql.objects,
    ),
    Rules({}),
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
    nul=False,
)


class PostgresSink(DatabaseSink):
    """The tables of a database, in the first schema of the connection's search path."""

    dialect = DIALECT
    error = psycopg.Error

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
        super().__init__()
        self._known: psycopg.Connection | None = None
        self._staged: set[str] = set()
        self._numbers: dict[str, int] = {}

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

    def columns(self, table: str, schema: str = "") -> Mapping[str, Column]:
        """Return the columns of a table or view, in order."""
        name = sql.qualified_name(table, schema)
        return {name: Column(*rest) for name, *rest in self.run(catalog.COLUMNS, name)}

    def unique(self, table: Table) -> list[list[str]]:
        """Return the columns of the primary key and of each unique constraint of a table."""
        return [columns for (columns,) in self.run(catalog.UNIQUE, sql.qualified(table))]

    def view(self, name: str) -> str | None:
        """Return the definition of a view; empty for another object, None if it is missing."""
        found = self.run(catalog.VIEW, quoted(name))
        return found[0][0] if found else None

    def key(self, table: str) -> list[str]:
        """Return the columns of a table's primary key, in order."""
        return [name for (name,) in self.run(catalog.KEY, quoted(table))]

    def prepare(self, tables: Sequence[Table]) -> None:
        """Create tables, add new columns; raise TablesStoppedError for tables that do not fit."""
        with self.alone():  # tables of an earlier try may have other types
            self.run("DISCARD TEMP")
            self._staged.clear()
        super().prepare(tables)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return a transaction."""
        try:
            with self._db.transaction():
                yield
        except BaseException:
            self._staged.clear()  # the rollback also drops the tables that this transaction created
            raise

    def keep_others_out(self) -> None:
        """Let services that start together wait for the one that creates the tables."""
        self.run("SELECT pg_advisory_xact_lock(hashtext(%s))", sql.POSITIONS)

    def comment(self, table: Table) -> None:
        """Set the comments of a table and its columns."""
        for on, comment in sql.comments(table):
            self._db.execute(text.SQL(f"COMMENT ON {on} IS {{}}").format(comment))

    def bound(self, table: str, views: Sequence[str]) -> list[str]:
        """Return what a DROP would remove without a warning."""
        names = list(map(quoted, [table, *views]))
        return [what for (what,) in self.run(catalog.BOUND, names)]

    def extras(self, table: str, views: Sequence[str]) -> list[str]:
        """Return statements that make grants and indexes again."""
        names = list(map(quoted, [table, *views]))
        return [each for (each,) in self.run(catalog.EXTRAS, names)]

    def others(self, _table: str, _views: Sequence[str]) -> list[str]:
        """Return none: PostgreSQL drops nothing on which an object of others depends."""
        return []

    def set_aside(self, table: str, to: str, views: Mapping[str, str]) -> list[str]:
        """Return statements that rename a table and its views."""
        ((schema,),) = self.run("SELECT current_schema()")
        rename = f"{{}} {quoted(schema)}.{{}} RENAME TO {{}}"
        return [
            *(rename.format("ALTER VIEW", *map(quoted, each)) for each in views.items()),
            rename.format("ALTER TABLE", quoted(table), quoted(to)),
        ]

    def empty(self, table: Table) -> None:
        """Delete all rows of a table, however many, in a moment if nothing forbids it."""
        ((truncates,),) = self.run(catalog.TRUNCATES, *[quoted(table.name)] * 2)
        fast = truncates and not table.is_mapped  # DELETE runs the triggers of the user
        self.run(f"{'TRUNCATE' if fast else 'DELETE FROM'} {sql.qualified(table)}")

    def classified(self, error: Exception) -> Exception:
        """Return the error of a sink for an ``error`` of the client."""
        state = error.sqlstate if isinstance(error, psycopg.Error) else None
        line = f"PostgreSQL: {_line(error)}"
        if state is None:  # no connection, or a broken one
            wrong = any(part in line for part in _WRONG) and _RESOLVES not in line
            wrong = wrong or isinstance(error, psycopg.ProgrammingError)
            return ConfigurationError(f"TIDEMARK_SINK: {line}") if wrong else UnavailableError(line)
        if state.startswith(_BUSY):
            return UnavailableError(line)
        if state.startswith(_REFUSED):
            return RefusedError(line)
        return (
            InfrastructureError(line) if state.startswith(_INTERNAL) else ConfigurationError(line)
        )

    def refused_rows(self, batch: Batch) -> dict[Partition, dict[int, str]]:
        """Return index and reason of the rows that PostgreSQL refuses; none if it cannot tell."""
        rows = database.numbered(self, batch)
        values = ", ".join(f"tried.{quoted(name)}" for name in batch.table.columns)
        block = f"""
            DECLARE tried record;
            BEGIN
                FOR tried IN SELECT * FROM {_TRIED} LOOP
                    BEGIN
                        {sql.upsert(batch.table, f"VALUES ({values})")};
                    EXCEPTION WHEN {_REFUSED_NAMES} THEN
                        INSERT INTO {_FOUND} VALUES (tried.{INDEX}, SQLERRM);
                    END;
                END LOOP;
            END
        """
        try:
            with self._db.transaction(force_rollback=True):
                columns = f"{INDEX} integer, {self._columns(batch.table)}"
                self.run(f"CREATE TEMP TABLE {_TRIED} ({columns})")
                self.run(f"CREATE TEMP TABLE {_FOUND} (number integer, reason text)")
                self._copy(_TRIED, rows)
                self._db.execute(text.SQL("DO {}").format(block))
                found = self.run(f"SELECT number, reason FROM {_FOUND}")
        except psycopg.Error as error:
            known = self.classified(error)
            if not isinstance(known, RefusedError):
                raise known from error
            found = []  # the copy itself is refused
        reasons = {number: f"PostgreSQL: {reason}" for number, reason in found}
        return {batch.partition: reasons} if reasons else {}

    def put(self, batch: Batch) -> None:
        """Delete the retracted windows of a batch, then insert or replace its rows."""
        withdrawn, rows = batch.newest()
        table = batch.table
        columns = list(table.columns)
        if withdrawn.height:
            fitted = database.fitted(self, table, withdrawn)
            staged = self._stage(table, fitted.select(sql.withdrawn_columns(table)))
            self.run(sql.withdraw(table, staged))
            self.run(f"TRUNCATE {staged}")
        if rows.height:
            fitted = database.fitted(self, table, rows)
            staged = self._stage(table, fitted.select(columns).sort(table.key))
            self.run(sql.upsert(table, f"SELECT {sql.names(columns)} FROM {staged}"))

    def _stage(self, table: Table, rows: pl.DataFrame) -> str:
        """Copy rows into the table's temporary twin, which is empty at each transaction's start."""
        number = self._numbers.setdefault(table.name, len(self._numbers))
        staged = f"{OWN_PREFIX}staged_{number}"
        if staged not in self._staged:
            columns = self._columns(table)
            self.run(f"CREATE TEMP TABLE IF NOT EXISTS {staged} ({columns}) ON COMMIT DELETE ROWS")
            self._staged.add(staged)
        self._copy(staged, rows)
        return staged

    def _columns(self, table: Table) -> str:
        """Return the columns of a temporary table that takes a table's rows."""
        known = self.conversions.get(table.name, {})
        return ", ".join(
            f"{quoted(name)} {known[name].type if name in known else DIALECT.type_of(name, dtype)}"
            for name, dtype in table.columns.items()
        )

    def _copy(self, target: str, rows: pl.DataFrame) -> None:
        options = f"FORMAT csv, NULL '{_NULL}'"
        statement = f"COPY {target} ({sql.names(rows.columns)}) FROM STDIN ({options})"
        with self._db.cursor().copy(statement) as copy:
            copy.write(_csv(rows))

    def close(self) -> None:
        """Close the connection."""
        if self._known is not None:
            self._known.close()


def _csv(rows: pl.DataFrame) -> str:
    texts = row_values.instants(row_values.json_texts(rows), _INSTANT)
    # All texts are quoted, so that no text is read as NULL.
    return texts.write_csv(include_header=False, null_value=_NULL, quote_style="non_numeric")


def _line(error: Exception) -> str:
    line = " ".join(str(error).split())
    return line.partition(" HINT:")[0]  # it advises to drop what others made
