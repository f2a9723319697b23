"""The SQL that databases share: builds tables, views and statements from a ``Table``.

A row of POSITIONS is the position of one partition, written in the same transaction as the rows.
Each move names the old value.  If two processes write the same partition, the second one therefore
changes nothing and raises ``OvertakenError``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tidemark.core.windows.pane import FINAL, REVISION, WINDOW
from tidemark.errors import ConfigurationError
from tidemark.sinks.databases.conversion import Rules
from tidemark.sinks.identifiers import Identifiers
from tidemark.sinks.table import WINDOW_START, Table

POSITIONS = "tidemark_positions"
GENERATION = "generation"
MADE = "tidemark_tables"
"""The tables that the sink made, each as it was then."""


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def qualified(table: Table) -> str:
    """Return the name of a table as SQL, with its schema if it has one."""
    return qualified_name(table.name, table.schema)


def qualified_name(name: str, schema: str) -> str:
    """Return a name as SQL in a schema; without one if ``schema`` is empty."""
    return f"{quoted(schema)}.{quoted(name)}" if schema else quoted(name)


def is_guarded(table: Table) -> bool:
    """Return whether a pane never replaces one of a higher revision.

    A mapped table may lack revisions.  Positions alone keep its rows in order.
    """
    return table.has_panes and not table.is_mapped


@dataclass(frozen=True)
class Dialect:
    """What differs between databases.

    ``rules``: of the types of existing columns.  ``types``: column types by polars type.
    ``parameter``: the placeholder of a value.  ``table_options``: text behind the columns of a new
    table.  ``remarks``: comments go into the CREATE TABLE statement, for lack of COMMENT ON.
    ``replaces_views``: there is CREATE OR REPLACE VIEW.  ``nul``: a text may hold NUL.
    """

    identifiers: Identifiers
    rules: Rules
    types: Mapping[pl.DataType, str]
    nested: str
    decimal: Callable[[pl.Decimal], str]
    parameter: str
    table_options: str = ""
    remarks: bool = False
    replaces_views: bool = True
    nul: bool = True

    def type_of(self, column: str, dtype: pl.DataType) -> str:
        """Return the type of a column.

        Raises:
            ConfigurationError: the database has no type for the column.
        """
        if dtype.is_nested():
            return self.nested
        if isinstance(dtype, pl.Decimal):
            return self.decimal(dtype)
        if dtype not in self.types:
            raise ConfigurationError(
                f"column {column!r}: the database has no type for {dtype}; cast the column"
            )
        return self.types[dtype]

    def create(self, table: Table) -> str:
        """Return the statement that creates a table."""
        columns = [
            f"{quoted(name)} {self.type_of(name, dtype)}{' NOT NULL' * (name in table.key)}"
            f"{self._remark(table.comment_of(name))}"
            for name, dtype in table.columns.items()
        ]
        return (
            f"CREATE TABLE {quoted(table.name)}{self._remark(table.comment)} "
            f"({', '.join(columns)}, PRIMARY KEY ({names(table.key)})){self.table_options}"
        )

    def _remark(self, comment: str) -> str:
        return f" /* {comment.replace('*/', '* /')} */" if self.remarks and comment else ""

    def create_positions(self) -> str:
        """Return the statement that creates the table of positions."""
        text, integer = self.types[pl.String()], self.types[pl.Int64()]
        return (
            f"CREATE TABLE IF NOT EXISTS {POSITIONS} (topic {text} NOT NULL, "
            f"partition {integer} NOT NULL, next_offset {integer} NOT NULL, "
            f"topic_id {text} NOT NULL, {self.generation_column()}, PRIMARY KEY (topic, partition))"
        )

    def generation_column(self) -> str:
        """Return the column of generations, which positions of earlier versions lack."""
        return f"{GENERATION} {self.types[pl.Int64()]} DEFAULT 0"

    def insert_position(self) -> str:
        """Return the statement of a first move; parameters: topic, partition, end, topic id."""
        values = ", ".join([self.parameter] * 4)
        return (
            f"INSERT INTO {POSITIONS} (topic, partition, next_offset, topic_id) "
            f"VALUES ({values}) ON CONFLICT DO NOTHING"
        )

    def move_position(self) -> str:
        """Return the statement of a move; parameters: end, topic, partition, begin, topic id."""
        at = self.parameter
        return (
            f"UPDATE {POSITIONS} SET next_offset = {at} "
            f"WHERE topic = {at} AND partition = {at} AND next_offset = {at} AND topic_id = {at}"
        )

    def delete_positions(self) -> str:
        """Return the statement that deletes the positions of a topic; parameter: the topic."""
        return f"DELETE FROM {POSITIONS} WHERE topic = {self.parameter}"

    def create_made(self) -> str:
        """Return the statement that creates the table of tables."""
        text = self.types[pl.String()]
        return f"CREATE TABLE IF NOT EXISTS {MADE} (name {text} PRIMARY KEY, made {text} NOT NULL)"

    def select_made(self) -> str:
        """Return the statement that finds how a table was made; parameter: its name."""
        return f"SELECT made FROM {MADE} WHERE name = {self.parameter}"

    def set_made(self) -> str:
        """Return the statement that records a table; parameters: its name, and how it was made."""
        return (
            f"INSERT INTO {MADE} VALUES ({self.parameter}, {self.parameter}) "
            "ON CONFLICT (name) DO UPDATE SET made = excluded.made"
        )

    def set_position(self) -> str:
        """Return the statement that puts a row of POSITIONS; parameters: its columns, in order."""
        values = ", ".join([self.parameter] * 5)
        moved = ("next_offset", "topic_id", GENERATION)
        return (
            f"INSERT INTO {POSITIONS} (topic, partition, {', '.join(moved)}) VALUES ({values}) "
            "ON CONFLICT (topic, partition) DO UPDATE SET "
            f"{', '.join(f'{name} = excluded.{name}' for name in moved)}"
        )


def names(columns: Sequence[str]) -> str:
    """Return names between commas."""
    return ", ".join(map(quoted, columns))


def upsert(table: Table, rows: str) -> str:
    """Return the statement that puts rows; ``rows``: the SQL behind the column names.

    A pane never replaces a pane of a higher revision.
    """
    ours = qualified(table)
    others = [name for name in table.columns if name not in table.key]
    assigned = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
    newer = f" WHERE excluded.{REVISION} >= {ours}.{REVISION}" if is_guarded(table) else ""
    change = f"UPDATE SET {assigned}{newer}" if others else "NOTHING"
    return (
        f"INSERT INTO {ours} ({names(list(table.columns))}) {rows} "
        f"ON CONFLICT ({names(table.key)}) DO {change}"
    )


def withdraw(table: Table, rows: str) -> str:
    """Return the statement that deletes retracted windows; ``rows``: a table with revisions.

    A withdrawal never deletes a pane of a higher revision.
    """
    same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in table.window)
    older = f" AND t.{REVISION} <= s.{REVISION}" if is_guarded(table) else ""
    return f"DELETE FROM {qualified(table)} t USING {rows} s WHERE {same}{older}"


def withdrawn_columns(table: Table) -> list[str]:
    """Return the columns that ``withdraw`` needs."""
    return [*table.window, REVISION] if is_guarded(table) else list(table.window)


def comments(table: Table) -> Iterator[tuple[str, str]]:
    """Yield each object, as COMMENT ON names it, and its comment."""
    yield f"TABLE {quoted(table.name)}", table.comment
    for column in table.columns:
        if comment := table.comment_of(column):
            yield f"COLUMN {quoted(table.name)}.{quoted(column)}", comment


Query = Callable[[Sequence[str]], str]
"""Returns the query of a view that shows the given columns."""


def views(table: Table) -> dict[str, Query]:
    """Return the names and queries of the views of a table whose rows may be withdrawn.

    ``<table>_latest``: the newest window of each key, where rows have a window.
    ``<table>_final``: rows that no later row can change.
    """
    if not is_guarded(table) or FINAL not in table.columns:
        return {}
    ours = quoted(table.name)

    def final(columns: Sequence[str]) -> str:
        return f"SELECT {names(columns)} FROM {ours} WHERE {quoted(FINAL)}"

    newest = next((name for name in (WINDOW, WINDOW_START) if name in table.columns), None)
    if newest is None:
        return {f"{table.name}_final": final}
    order = ", ".join(f"{quoted(name)} DESC" for name in (newest, REVISION))
    rank = f"PARTITION BY {names(table.record_key)} ORDER BY {order}"

    def latest(columns: Sequence[str]) -> str:
        shown = names(columns)
        ranked = f"SELECT {shown}, row_number() OVER ({rank}) AS tidemark_rank FROM {ours}"
        return f"SELECT {shown} FROM ({ranked}) AS ranked WHERE tidemark_rank = 1"

    return {f"{table.name}_latest": latest, f"{table.name}_final": final}


def objects(table: Table) -> tuple[str, ...]:
    """Return the names of a table and of its views."""
    return table.name, *views(table)


def is_query(definition: str, query: str) -> bool:
    """Return whether the definition of a view, as a database prints it, is a query of ``views``."""
    return _bare(definition).endswith(_bare(query))


def _bare(query: str) -> str:
    """Return a query without what databases add or drop: quotes, parentheses, names of tables."""
    return re.sub(r"\b\w+\.|\bas\b|[\s\"();]", "", query.lower())


def mentions(definition: str, names: Sequence[str]) -> bool:
    """Return whether the definition of a view may read one of the names."""
    return any(re.search(rf"\b{re.escape(name)}\b", definition, re.IGNORECASE) for name in names)
