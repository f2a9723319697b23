"""Shared by SQL sinks: what a database does, writes of batches, and moves of positions."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import polars as pl

from tidemark.core.windows.pane import RETRACTED
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks.databases import row_values, sql
from tidemark.sinks.databases.conversion import Conversion
from tidemark.sinks.databases.sql import Dialect, quoted
from tidemark.sinks.identifiers import OWN_PREFIX
from tidemark.sinks.sink import (
    Batch,
    OvertakenError,
    Position,
    RefusedError,
    Reload,
    TablesStoppedError,
)
from tidemark.sinks.table import Table

INDEX = f"{OWN_PREFIX}index"
"""A column with the number of a row in its batch."""


class Column(NamedTuple):
    """A column of a table or view that exists.

    ``required``: a row needs a value for it.  ``computed``: a row must not have a value for it.
    """

    type: str
    required: bool = False
    computed: bool = False


class Database(Protocol):
    """A connection, as the shared statements use it."""

    dialect: Dialect
    error: type[Exception] | tuple[type[Exception], ...]
    """What the client raises."""
    putting: Batch | None
    """The batch whose rows are being written."""
    conversions: dict[str, Mapping[str, Conversion]]
    """By table, how columns of other types than the sink's own are filled."""

    def alone(self) -> AbstractContextManager[None]:
        """Return a transaction in which no other process prepares or reloads.

        Raises:
            UnavailableError, ConfigurationError: for errors of the client.
        """

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, if any."""

    def change(self, statement: str, *values: object) -> int:
        """Run a statement and return the number of changed rows."""

    def columns(self, table: str, schema: str = "") -> Mapping[str, Column]:
        """Return the columns of a table or view in order; none if it does not exist."""

    def key(self, table: str) -> list[str]:
        """Return the columns of a table's primary key, in order."""

    def unique(self, table: Table) -> list[list[str]]:
        """Return the columns of the primary key and of each unique constraint of a table."""

    def view(self, name: str) -> str | None:
        """Return the definition of a view; empty for another object, None if it is missing."""

    def comment(self, table: Table) -> None:
        """Set the comments of a table and its columns."""

    def bound(self, table: str, views: Sequence[str]) -> list[str]:
        """Return what belongs to a table, or to views of it, and cannot be made again."""

    def extras(self, table: str, views: Sequence[str]) -> list[str]:
        """Return statements that make grants and indexes of others again."""

    def others(self, table: str, views: Sequence[str]) -> list[str]:
        """Return views of others that the database would not protect from a missing column."""

    def set_aside(self, table: str, to: str, views: Mapping[str, str]) -> list[str]:
        """Return statements that rename a table; ``views``: new names of its views."""

    def put(self, batch: Batch) -> None:
        """Delete the retracted windows of a batch, then insert or replace its rows."""

    def empty(self, table: Table) -> None:
        """Delete all rows of a table."""


def readers(
    database: Database, views: Sequence[tuple[Any, ...]], table: str, own: Sequence[str]
) -> list[str]:
    """Return the views of others that read a table or its own views, and that work.

    ``views``: names and definitions of all views.
    """
    found = []
    for name, definition in views:
        if name not in own and sql.mentions(definition, [table, *own]):
            try:
                database.run(f"SELECT * FROM {quoted(name)} LIMIT 0")
            except database.error:
                continue
            found.append(name)
    return found


def require_fit(database: Database, batches: Sequence[Batch]) -> None:
    """Raise if the database cannot hold some value; finds all such rows before it sends any.

    Raises:
        RefusedError: names the rows.
    """
    dialect = database.dialect
    rows = {}
    for batch in batches:
        table = batch.table
        fitted = row_values.fitted(dialect, table, batch.rows)
        unfit = row_values.unfit(dialect, table, fitted, database.conversions.get(table.name, {}))
        if unfit:
            rows[batch.partition] = unfit
    if rows:
        reason = next(iter(next(iter(rows.values())).values()))
        raise RefusedError(f"{dialect.identifiers.place}: {reason}", rows)


def fitted(database: Database, table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the values that are sent, each of which the database can hold."""
    rows = row_values.fitted(database.dialect, table, rows)
    conversions = database.conversions.get(table.name)
    return (
        rows.with_columns(c.value.alias(n) for n, c in conversions.items()) if conversions else rows
    )


def numbered(database: Database, batch: Batch) -> pl.DataFrame:
    """Return the rows that a batch puts, each with its number in the batch in column INDEX."""
    rows = fitted(database, batch.table, batch.rows).with_row_index(INDEX)
    if batch.table.has_panes:
        rows = rows.filter(~pl.col(RETRACTED))
    return rows.select(INDEX, *batch.table.columns)


def write(database: Database, batches: Sequence[Batch]) -> None:
    """Move positions and put rows; the caller wraps the call in one transaction.

    Raises:
        OvertakenError: a partition's position is not the begin of its batch.
    """
    for batch in batches:
        database.putting = None
        move(database, batch)
        database.putting = batch
        database.put(batch)


def failed(database: Database, error: Exception) -> Exception:
    """Return an error of ``write``: if a person must act for the sake of one table, it stops."""
    if isinstance(error, ConfigurationError) and database.putting is not None:
        return TablesStoppedError({database.putting.table.name: str(error)})
    return error


def positions(database: Database, partitions: Collection[Partition]) -> dict[Partition, Position]:
    """Return the positions of partitions, without those that have none."""
    known = _positions(database)
    return {at: known[at] for at in partitions if at in known}


def _positions(database: Database) -> dict[Partition, Position]:
    rows = database.run(
        f"SELECT topic, partition, next_offset, topic_id, {sql.GENERATION} FROM {sql.POSITIONS}"
    )
    return {Partition(topic, number): Position(*rest) for topic, number, *rest in rows}


def move(database: Database, batch: Batch) -> None:
    """Move a partition's position to the end of a batch.

    Raises:
        OvertakenError: the position is not the begin of the batch.
    """
    at, (begin, end, topic_id) = batch.partition, batch.move
    if begin is None:
        changed = database.change(database.dialect.insert_position(), *at, end, topic_id)
    else:
        changed = database.change(database.dialect.move_position(), end, *at, begin, topic_id)
    if changed != 1:
        raise OvertakenError(f"{at}: another process has written it beyond {begin or 'its start'}")


def reload(database: Database, reloads: Sequence[Reload]) -> None:
    """Set the positions of tables and delete their rows, each table in one transaction.

    Positions come first, as in ``write``, so that two processes lock in the same order.

    Raises:
        TablesStoppedError: rows cannot be deleted.
    """
    for each in reloads:
        try:
            with database.alone():
                _reload(database, each)
        except ConfigurationError as error:
            raise TablesStoppedError({each.table.name: str(error)}) from error


def _reload(database: Database, each: Reload) -> None:
    known = _positions(database)
    if all(at in known and known[at].is_of(to) for at, to in each.positions.items()):
        return  # another process was first
    for at, position in each.positions.items():
        database.run(database.dialect.set_position(), *at, *position)
    if each.empties and not each.table.keeps_rows:
        database.empty(each.table)
