"""Shared by SQL sinks: creates and checks tables, and moves positions atomically.

What others made stays: a view is replaced only if it is what this sink writes, and it keeps its
columns, so that grants and views on top of it last.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import polars as pl

from tidemark.core.windows.pane import RETRACTED
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks.databases import sql
from tidemark.sinks.databases.sql import Dialect, quoted
from tidemark.sinks.identifiers import OWN_PREFIX
from tidemark.sinks.sink import Batch, OvertakenError, Position, RefusedError, Reload
from tidemark.sinks.table import Table

_log = logging.getLogger("tidemark")

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

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, if any."""

    def change(self, statement: str, *values: object) -> int:
        """Run a statement and return the number of changed rows."""

    def columns(self, table: str) -> Mapping[str, Column]:
        """Return the columns of a table or view in order; none if it does not exist."""

    def key(self, table: str) -> list[str]:
        """Return the columns of a table's primary key, in order."""

    def view(self, name: str) -> str | None:
        """Return the definition of a view; empty for another object, None if it is missing."""

    def put(self, batch: Batch) -> None:
        """Delete the retracted windows of a batch, then insert or replace its rows."""

    def empty(self, table: str) -> None:
        """Delete all rows of a table."""


def require_fit(dialect: Dialect, batches: Sequence[Batch]) -> None:
    """Raise if the database cannot hold some value; finds all such rows before it sends any.

    Raises:
        RefusedError: names the rows.
    """
    rows = {}
    for batch in batches:
        unfit = sql.unfit(dialect, batch.table, sql.fitted(dialect, batch.table, batch.rows))
        if unfit:
            rows[batch.partition] = unfit
    if rows:
        reason = next(iter(next(iter(rows.values())).values()))
        raise RefusedError(f"{dialect.identifiers.place}: {reason}", rows)


def numbered(dialect: Dialect, batch: Batch) -> pl.DataFrame:
    """Return the rows that a batch puts, each with its number in the batch in column INDEX."""
    rows = sql.fitted(dialect, batch.table, batch.rows).with_row_index(INDEX)
    if batch.table.has_panes:
        rows = rows.filter(~pl.col(RETRACTED))
    return rows.select(INDEX, *batch.table.columns)


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
        ConfigurationError: a name does not fit, or a table exists with another key, with a column
            of another type, or with a column that no row of the sink fills.
    """
    database.dialect.identifiers.require(tables)
    database.run(database.dialect.create_positions())
    if sql.GENERATION not in database.columns(sql.POSITIONS):
        generation = database.dialect.generation_column()
        database.run(f"ALTER TABLE {sql.POSITIONS} ADD COLUMN {generation}")
    changed = [table for table in tables if _fit(database, table)]
    for table in tables:
        for name, query in sql.views(table).items():
            _show(database, table, name, query)
    return changed


def _show(database: Database, table: Table, name: str, query: sql.Query) -> None:
    """Create a view, or add columns to it; columns that it has keep their places."""
    columns = list(table.columns)
    definition = database.view(name)
    if definition is None:
        database.run(f"CREATE VIEW {quoted(name)} AS {query(columns)}")
        return
    shown = list(database.columns(name))
    if not sql.is_query(definition, query(shown)):
        _log.warning(
            "%s is not a view of this sink and stays as it is; to get the view of table %s, rename "
            "it and start the sink again",
            name,
            table.name,
        )
        return
    added = [column for column in columns if column not in shown]
    if not added:
        return
    replace = "CREATE OR REPLACE VIEW"
    if not database.dialect.replaces_views:
        database.run(f"DROP VIEW {quoted(name)}")
        replace = "CREATE VIEW"
    database.run(f"{replace} {quoted(name)} AS {query([*shown, *added])}")


def _fit(database: Database, table: Table) -> bool:
    there = database.columns(table.name)
    if not there:
        database.run(database.dialect.create(table))
        database.run(database.dialect.delete_positions(), table.topic)  # its rows are gone
        return True
    _require_key(database, table)
    _require_fillable(table, there)
    missing = []
    for name, dtype in table.columns.items():
        wanted = database.dialect.type_of(name, dtype)
        if name not in there:
            missing.append(f"{quoted(name)} {wanted}")
        elif there[name].type != wanted:
            raise ConfigurationError(
                f"table {table.name} has column {name} with type {there[name].type}, but it needs "
                f"{wanted}: rename the output, or drop the table and the sink loads it again"
            )
    for column in missing:
        database.run(f"ALTER TABLE {quoted(table.name)} ADD COLUMN {column}")
    return bool(missing)


def _require_fillable(table: Table, there: Mapping[str, Column]) -> None:
    for name, column in there.items():
        if column.required and name not in table.columns:
            raise ConfigurationError(
                f"table {table.name} has a column {name} of its own that is NOT NULL and has no "
                "default, so no row of the sink fits: give it a default, or let it be null"
            )
        if column.computed and name in table.columns:
            raise ConfigurationError(
                f"table {table.name} computes column {name} itself, but the sink writes it: make "
                "it a plain column"
            )


def _require_key(database: Database, table: Table) -> None:
    key = database.key(table.name)
    if set(key) != set(table.key):  # in any order
        raise ConfigurationError(
            f"table {table.name} has the primary key ({', '.join(key)}), but it needs "
            f"({', '.join(table.key)}): rename the output, or drop the table and the sink loads it "
            "again"
        )


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
    """Set the positions of tables and delete their rows; the caller wraps it in one transaction.

    Positions come first, as in ``write``, so that two processes lock in the same order.
    """
    known = _positions(database)
    for each in sorted(reloads, key=lambda each: each.table.topic):
        if all(at in known and known[at].is_of(to) for at, to in each.positions.items()):
            continue  # another process was first
        for at, position in each.positions.items():
            database.run(database.dialect.set_position(), *at, *position)
        if each.empties:
            database.empty(each.table.name)
