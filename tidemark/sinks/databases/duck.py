"""A sink to DuckDB: tables in one file, exactly once, written column by column.

Only one process at a time can open the file: a second sink, or a reader, waits for the first.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from tidemark.core.rows.schema import INSTANT
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks.databases import database, row_values, sql
from tidemark.sinks.databases.conversion import Rules
from tidemark.sinks.databases.database import INDEX, Column
from tidemark.sinks.databases.database_sink import DatabaseSink
from tidemark.sinks.databases.sql import Dialect, quoted
from tidemark.sinks.identifiers import OWN_PREFIX, Identifiers
from tidemark.sinks.sink import Batch, RefusedError, UnavailableError
from tidemark.sinks.table import Table

DIALECT = Dialect(
    Identifiers(
        "DuckDB",
        fold=str.lower,
        columns=frozenset({"rowid"}),
        prefixes=(OWN_PREFIX,),
        derived=sql.objects,
    ),
    Rules({}, zones=True),
    {
        pl.String(): "VARCHAR",
        pl.Boolean(): "BOOLEAN",
        pl.Int64(): "BIGINT",
        pl.Int32(): "INTEGER",
        pl.Int16(): "SMALLINT",
        pl.Int8(): "TINYINT",
        pl.UInt64(): "UBIGINT",
        pl.UInt32(): "UINTEGER",
        pl.UInt16(): "USMALLINT",
        pl.UInt8(): "UTINYINT",
        pl.Float64(): "DOUBLE",
        pl.Float32(): "FLOAT",
        INSTANT: "TIMESTAMP WITH TIME ZONE",
        pl.Date(): "DATE",
    },
    nested="JSON",
    decimal=lambda dtype: f"DECIMAL({dtype.precision},{dtype.scale})",
    parameter="?",
)


class DuckSink(DatabaseSink):
    """A database file, created if it does not exist."""

    dialect = DIALECT
    error = duckdb.Error

    def __init__(self, path: Path) -> None:
        """``path``: of the file; it is opened at the first use."""
        super().__init__()
        self._path = path
        self._known: duckdb.DuckDBPyConnection | None = None

    @property
    def _db(self) -> duckdb.DuckDBPyConnection:
        if self._known is None:
            try:
                self._known = duckdb.connect(self._path)
            except duckdb.Error as error:
                if isinstance(error, duckdb.IOException) and _LOCKED in str(error):
                    raise UnavailableError(_line(error)) from error  # another process has it
                raise ConfigurationError(f"DuckDB file {self._path}: {_line(error)}") from error
        return self._known

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, if any."""
        return self._db.execute(statement, values).fetchall()

    def change(self, statement: str, *values: object) -> int:
        """Run a statement and return the number of changed rows."""
        return int(self.run(statement, *values)[0][0])

    def columns(self, table: str, schema: str = "") -> Mapping[str, Column]:
        """Return the columns of a table or view, in order."""
        return {name: Column(*rest) for name, *rest in self.run(_COLUMNS, table, schema)}

    def unique(self, table: Table) -> list[list[str]]:
        """Return the columns of the primary key and of each unique constraint of a table."""
        return [list(columns) for (columns,) in self.run(_UNIQUE, table.name, table.schema)]

    def view(self, name: str) -> str | None:
        """Return the definition of a view; empty for another object, None if it is missing."""
        found = self.run(_VIEW, name)
        return found[0][0] if found else None

    def key(self, table: str) -> list[str]:
        """Return the columns of a table's primary key, in order."""
        found = self.run(_KEY, table)
        return list(found[0][0]) if found else []

    def comment(self, table: Table) -> None:
        """Set the comments of a table and its columns."""
        for on, comment in sql.comments(table):
            text = comment.replace("'", "''")
            self.run(f"COMMENT ON {on} IS '{text}'")

    def bound(self, _table: str, _views: Sequence[str]) -> list[str]:
        """Return none: DuckDB has no other objects of a table than indexes."""
        return []

    def extras(self, table: str, _views: Sequence[str]) -> list[str]:
        """Return the statements of indexes."""
        return [each for (each,) in self.run(_INDEXES, table)]

    def others(self, table: str, views: Sequence[str]) -> list[str]:
        """Return views of others that read a table or its views, and that work."""
        asked = "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal"
        return database.readers(self, self.run(asked), table, views)

    def set_aside(self, table: str, to: str, views: Mapping[str, str]) -> list[str]:
        """Return statements that rename a table; its views would not follow, and go."""
        return [
            *(f"DROP VIEW {quoted(name)}" for name in views),
            f"ALTER TABLE {quoted(table)} RENAME TO {quoted(to)}",
        ]

    def write(self, batches: Sequence[Batch]) -> None:
        """Write all batches in one transaction."""
        try:
            super().write(batches)
        finally:  # not before: a transaction that failed takes no statement but its rollback
            self._db.unregister(_ROWS)

    def classified(self, error: Exception) -> Exception:
        """Return the error of a sink for an ``error`` of the client."""
        line = _line(error)
        if isinstance(error, duckdb.DataError | duckdb.IntegrityError):
            return RefusedError(line)
        # The next prepare creates a table that is missing.
        if isinstance(error, duckdb.OperationalError | duckdb.CatalogException):
            return UnavailableError(line)
        return ConfigurationError(line)

    def refused_rows(self, batch: Batch) -> dict[Partition, dict[int, str]]:
        """Return index and reason of the rows that break a constraint; none if it cannot tell."""
        table = batch.table
        self._register(database.numbered(self, batch))
        reasons: dict[int, str] = {}
        for kind, columns, expression, text in self.run(_CHECKED, table.name, table.schema):
            if not set(columns) <= set(table.columns):
                continue  # of an own column, which has its default
            holds = expression if kind == "CHECK" else f"{quoted(columns[0])} IS NOT NULL"
            broken = self.run(f"SELECT {INDEX} FROM {_ROWS} WHERE NOT coalesce({holds}, TRUE)")
            for (index,) in broken:
                reasons.setdefault(index, f"DuckDB: constraint {text} of column {columns[0]}")
        return {batch.partition: reasons} if reasons else {}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return a transaction; no other process has the file."""
        self._db.begin()
        try:
            yield
        except BaseException:
            self._db.rollback()
            raise
        self._db.commit()

    def put(self, batch: Batch) -> None:
        """Delete the retracted windows of a batch, then insert or replace its rows."""
        withdrawn, rows = batch.newest()
        table = batch.table
        columns = list(table.columns)
        if withdrawn.height:
            gone = database.fitted(self, table, withdrawn)
            self._register(gone.select(sql.withdrawn_columns(table)))
            self.run(sql.withdraw(table, _ROWS))
        self._register(database.fitted(self, table, rows).select(columns))
        self.run(sql.upsert(table, f"SELECT {sql.names(columns)} FROM {_ROWS}"))

    def _register(self, rows: pl.DataFrame) -> None:
        """Let statements read ``rows`` as table _ROWS; they replace those before."""
        self._db.register(_ROWS, row_values.json_texts(rows).to_arrow())

    def close(self) -> None:
        """Close the file."""
        if self._known is not None:
            self._known.close()


_ROWS = "tidemark_rows"
_LOCKED = "Could not set lock"
_COLUMNS = """
    SELECT column_name, data_type, NOT is_nullable AND column_default IS NULL,
    FROM duckdb_columns()
    WHERE table_name = ?1 AND schema_name = coalesce(nullif(?2, ''), current_schema())
    ORDER BY column_index
"""
_VIEW = """
    SELECT sql FROM duckdb_views() WHERE view_name = ?1 AND NOT internal
    UNION ALL SELECT '' FROM duckdb_tables() WHERE table_name = ?1
"""
_INDEXES = "SELECT sql FROM duckdb_indexes() WHERE table_name = ? AND sql IS NOT NULL"
_UNIQUE = """
    SELECT constraint_column_names FROM duckdb_constraints()
    WHERE table_name = ?1 AND schema_name = coalesce(nullif(?2, ''), current_schema())
        AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')
"""
_CHECKED = """
    SELECT constraint_type, constraint_column_names, expression, constraint_text
    FROM duckdb_constraints()
    WHERE table_name = ?1 AND schema_name = coalesce(nullif(?2, ''), current_schema())
        AND constraint_type IN ('CHECK', 'NOT NULL')
"""
_KEY = """
    SELECT constraint_column_names FROM duckdb_constraints()
    WHERE table_name = ? AND constraint_type = 'PRIMARY KEY'
"""


def _line(error: Exception) -> str:
    return "DuckDB: " + " ".join(str(error).split())
