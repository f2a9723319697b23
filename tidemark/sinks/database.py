"""Shared by SQL sinks: creates and checks tables, and moves positions atomically."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks import sql
from tidemark.sinks.sink import Batch, OvertakenError, Position
from tidemark.sinks.sql import Dialect, quoted
from tidemark.sinks.table import Table


class Database(Protocol):
    """A connection, as the shared statements use it."""

    dialect: Dialect

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, if any."""

    def change(self, statement: str, *values: object) -> int:
        """Run a statement and return the number of changed rows."""

    def columns(self, table: str) -> Mapping[str, str]:
        """Return a table's columns and their types; none if the table does not exist."""

    def key(self, table: str) -> list[str]:
        """Return the columns of a table's primary key, in order."""

    def put(self, batch: Batch) -> None:
        """Delete the retracted windows of a batch, then insert or replace its rows."""


def write(database: Database, batches: Sequence[Batch]) -> None:
    """Move positions and put rows; the caller wraps the call in one transaction.

    Raises:
        OvertakenError: a partition's position is not the begin of its batch.
    """
    for batch in batches:
        move(database, batch)
        database.put(batch)


def prepare(database: Database, tables: Sequence[Table]) -> list[Table]:
    """Create missing tables and columns; return the tables that were created or extended.

    Raises:
        ConfigurationError: a table exists with another key, or a column with another type.
    """
    database.run(database.dialect.create_positions())
    changed = [table for table in tables if _fit(database, table)]
    for table in changed:
        for name, query in sql.views(table).items():
            database.run(f"DROP VIEW IF EXISTS {quoted(name)}")
            database.run(f"CREATE VIEW {quoted(name)} AS {query}")
    return changed


def _fit(database: Database, table: Table) -> bool:
    there = database.columns(table.name)
    if not there:
        database.run(database.dialect.create(table))
        return True
    _require_key(database, table)
    missing = []
    for name, dtype in table.columns.items():
        wanted = database.dialect.type_of(name, dtype)
        if name not in there:
            missing.append(f"{quoted(name)} {wanted}")
        elif there[name] != wanted:
            raise ConfigurationError(
                f"table {table.name} has column {name} with type {there[name]}, but it needs "
                f"{wanted}: rename the table or the output"
            )
    for column in missing:
        database.run(f"ALTER TABLE {quoted(table.name)} ADD COLUMN {column}")
    return bool(missing)


def _require_key(database: Database, table: Table) -> None:
    key = database.key(table.name)
    if set(key) != set(table.key):  # in any order
        raise ConfigurationError(
            f"table {table.name} has the primary key ({', '.join(key)}), but it needs "
            f"({', '.join(table.key)}): rename the table or the output"
        )


def positions(database: Database, partitions: Collection[Partition]) -> dict[Partition, Position]:
    """Return the positions of partitions, without those that have none."""
    rows = database.run(f"SELECT topic, partition, next_offset, topic_id FROM {sql.POSITIONS}")
    known = {Partition(topic, number): Position(end, of) for topic, number, end, of in rows}
    return {at: known[at] for at in partitions if at in known}


def move(database: Database, batch: Batch) -> None:
    """Move a partition's position to the end of a batch.

    Raises:
        OvertakenError: the position is not the begin of the batch.
    """
    at, (begin, end, topic_id) = batch.partition, batch.move
    if begin is None:
        changed = database.change(database.dialect.insert_position(), *at, end, topic_id)
    else:
        changed = database.change(database.dialect.move_position(), end, topic_id, *at, begin)
    if changed != 1:
        raise OvertakenError(f"{at}: another process has written it beyond {begin or 'its start'}")
