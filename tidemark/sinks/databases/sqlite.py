"""A sink to SQLite: tables in one file, exactly once.

Instants are ISO 8601 texts in UTC, which sort by time.  Lists and structs are JSON texts.  Decimals
are texts, because SQLite would round them.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from tidemark.core.rows.schema import INSTANT
from tidemark.core.windows.pane import REVISION
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

_BUSY_S = 5.0
_CACHE_KB = 65_536
_ROWS_A_STATEMENT = 16  # stays below the limit of values per statement
_INSTANT = "%Y-%m-%dT%H:%M:%S%.3fZ"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_GENERATED = (2, 3)  # of PRAGMA table_xinfo
_REMAKES = ("no such table", "no such column")  # the next prepare does
_KIND = 0xFF  # the low byte of a result code

DIALECT = Dialect(
    Identifiers("SQLite", fold=str.lower, prefixes=("sqlite_", OWN_PREFIX), derived=sql.objects),
    Rules(
        {
            **dict.fromkeys(["int", "integer", "int8", "int4"], "bigint"),
            **dict.fromkeys(["real", "float"], "double"),
            **dict.fromkeys(["datetime", "timestamp"], "timestamp with time zone"),
            "bool": "boolean",
        },
        digits=15,
        texts=True,
    ),
    {
        pl.String(): "TEXT",
        pl.Boolean(): "INTEGER",
        pl.Int64(): "INTEGER",
        pl.Int32(): "INTEGER",
        pl.Int16(): "INTEGER",
        pl.Int8(): "INTEGER",
        pl.UInt32(): "INTEGER",
        pl.UInt16(): "INTEGER",
        pl.UInt8(): "INTEGER",
        pl.Float64(): "REAL",
        pl.Float32(): "REAL",
        INSTANT: "TEXT",
        pl.Date(): "TEXT",
    },
    nested="TEXT",
    decimal=lambda _: "TEXT",
    parameter="?",
    remarks=True,
    replaces_views=False,
    table_options=" WITHOUT ROWID",  # rows are stored in the index of the key
)


class SqliteSink(DatabaseSink):
    """A database file, created if it does not exist."""

    dialect = DIALECT
    error = (sqlite3.Error, OverflowError)

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            ConfigurationError: the file cannot be opened, or is not a database.
        """
        super().__init__()
        try:
            self._db = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        except sqlite3.Error as error:
            raise ConfigurationError(f"SQLite file {path}: {error}") from None
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            # A power failure may lose the end of the write-ahead log, but rows and positions
            # together: the sink continues from the older positions.
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        except sqlite3.Error as error:
            self._db.close()
            raise ConfigurationError(f"SQLite file {path}: {error}") from None

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self._db.execute(statement, values).fetchall()

    def change(self, statement: str, *values: object) -> int:
        """Run a statement and return the number of changed rows."""
        return self._db.execute(statement, values).rowcount

    def columns(self, table: str, schema: str = "") -> Mapping[str, Column]:
        """Return the columns of a table or view, in order; none in a schema."""
        if schema:
            return {}
        return {
            name: Column(kind, bool(filled) and default is None, hidden in _GENERATED)
            for _, name, kind, filled, default, _, hidden in self._described(table)
        }

    def key(self, table: str) -> list[str]:
        """Return the columns of a table's primary key, in order."""
        places = {place: name for _, name, _, _, _, place, _ in self._described(table) if place}
        return [places[place] for place in sorted(places)]

    def unique(self, table: Table) -> list[list[str]]:
        """Return the columns of the primary key and of each unique constraint of a table."""
        found = [self.key(table.name)]
        for _, index, is_unique, _, partial in self.run(f"PRAGMA index_list({quoted(table.name)})"):
            if is_unique and not partial:
                parts = self.run(f"PRAGMA index_info({quoted(index)})")
                found.append([name for _, _, name in parts])
        return found

    def _described(self, table: str) -> list[tuple[Any, ...]]:
        return self.run(f"PRAGMA table_xinfo({quoted(table)})")

    def view(self, name: str) -> str | None:
        """Return the definition of a view; empty for another object, None if it is missing."""
        found = self.run("SELECT type, sql FROM sqlite_master WHERE name = ? COLLATE NOCASE", name)
        return next((text if kind == "view" else "" for kind, text in found), None)

    def comment(self, table: Table) -> None:
        """Do nothing: the statement that creates a table has the comments."""

    def bound(self, _table: str, _views: Sequence[str]) -> list[str]:
        """Return none: triggers and indexes are made again."""
        return []

    def extras(self, table: str, views: Sequence[str]) -> list[str]:
        """Return the statements of indexes and triggers."""
        marks = ", ".join("?" * (len(views) + 1))
        asked = (
            "SELECT sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL "
            f"AND tbl_name IN ({marks})"
        )
        return [each for (each,) in self.run(asked, table, *views)]

    def others(self, table: str, views: Sequence[str]) -> list[str]:
        """Return views of others that read a table or its views, and that work."""
        asked = "SELECT name, sql FROM sqlite_master WHERE type = 'view'"
        return database.readers(self, self.run(asked), table, views)

    def set_aside(self, table: str, to: str, views: Mapping[str, str]) -> list[str]:
        """Return statements that rename a table; views have no other names and go."""
        return [
            f"ALTER TABLE {quoted(table)} RENAME TO {quoted(to)}",
            *(f"DROP VIEW {quoted(name)}" for name in views),
        ]

    def classified(self, error: Exception) -> Exception:
        """Return the error of a sink for an ``error`` of the client."""
        line = f"SQLite: {error}"
        if isinstance(error, sqlite3.OperationalError):
            busy = error.sqlite_errorcode & _KIND in _BUSY or str(error).startswith(_REMAKES)
            return UnavailableError(line) if busy else ConfigurationError(line)
        if isinstance(error, sqlite3.DataError | sqlite3.IntegrityError | OverflowError):
            return RefusedError(line)
        return ConfigurationError(line)  # the file is damaged or no database

    def refused_rows(self, batch: Batch) -> dict[Partition, dict[int, str]]:
        """Return index and reason of the rows that SQLite refuses; each is tried by itself."""
        rows = database.numbered(self, batch)
        columns = list(batch.table.columns)
        statement = sql.upsert(batch.table, f"VALUES ({', '.join('?' * len(columns))})")
        reasons: dict[int, str] = {}
        with self.transaction("ROLLBACK"):
            values = zip(*_values(rows.select(columns)), strict=True)
            for index, row in zip(rows[INDEX], values, strict=True):
                try:
                    self._db.execute(statement, row)
                except (sqlite3.DataError, sqlite3.IntegrityError, OverflowError) as error:
                    reasons[index] = f"SQLite: {error}"
        return {batch.partition: reasons} if reasons else {}

    @contextmanager
    def transaction(self, end: str = "COMMIT") -> Iterator[None]:
        """Return a transaction; no other process can write until it ends."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute(end)
        except BaseException:
            if self._db.in_transaction:  # a disk error may have ended it
                self._db.execute("ROLLBACK")
            raise

    def put(self, batch: Batch) -> None:
        """Delete the retracted windows of a batch, then insert or replace its rows."""
        withdrawn, rows = batch.newest()
        table = batch.table
        if withdrawn.height:
            where = " AND ".join(f"{quoted(name)} = ?" for name in table.window)
            older = f" AND {REVISION} <= ?" if sql.is_guarded(table) else ""
            gone = database.fitted(self, table, withdrawn).select(sql.withdrawn_columns(table))
            self._db.executemany(
                f"DELETE FROM {sql.qualified(table)} WHERE {where}{older}",
                _grouped(_values(gone), 1),
            )
        fitted = database.fitted(self, table, rows)
        columns = _values(fitted.select(list(table.columns)).sort(table.key))
        whole = rows.height - rows.height % _ROWS_A_STATEMENT
        self._upsert(table, [column[:whole] for column in columns], _ROWS_A_STATEMENT)
        self._upsert(table, [column[whole:] for column in columns], 1)

    def _upsert(self, table: Table, columns: Sequence[Sequence[object]], rows: int) -> None:
        """Insert or replace rows, ``rows`` per statement."""
        marks = f"({', '.join('?' * len(columns))})"
        statement = sql.upsert(table, f"VALUES {', '.join([marks] * rows)}")
        self._db.executemany(statement, _grouped(columns, rows))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _values(rows: pl.DataFrame) -> list[list[object]]:
    """Return the values of each column in types that SQLite takes."""
    texts = rows.with_columns(
        pl.col(name).cast(pl.String)
        for name, dtype in rows.schema.items()
        if isinstance(dtype, pl.Decimal | pl.Date)
    )
    columns = row_values.instants(row_values.json_texts(texts), _INSTANT).get_columns()
    return [column.to_list() for column in columns]


def _grouped(columns: Sequence[Sequence[object]], rows: int) -> Iterable[tuple[object, ...]]:
    """Return the values of ``rows`` rows at a time, row by row."""
    return zip(*(column[row::rows] for row in range(rows) for column in columns), strict=True)
