"""Creates and checks the tables of a SQL sink, each by itself: one that does not fit stops alone.

A table whose key or types have changed is made again if the sink made it and nothing of others is
lost (docs/sinks.md, "A changed key").  The sink replaces a view only if the sink wrote it.  The
view keeps its columns, so that grants on it and views that read it stay.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, count

import msgspec
import polars as pl

from tidemark.core.operators.ports import ROW
from tidemark.errors import ConfigurationError
from tidemark.sinks.databases import sql
from tidemark.sinks.databases.conversion import Conversion, conversion
from tidemark.sinks.databases.database import Column, Database
from tidemark.sinks.databases.sql import quoted
from tidemark.sinks.sink import TablesStoppedError
from tidemark.sinks.table import Table

_log = logging.getLogger("tidemark")


class _Made(msgspec.Struct):
    """A table as the sink made it: types by column, and what its views depend on."""

    columns: dict[str, str]
    key: list[str]
    window: list[str]
    record_key: list[str]

    def is_of(self, database: Database, table: Table) -> bool:
        """Return whether nobody has changed the table since."""
        return self == _described(database, table.name, self.window, self.record_key)

    def views(self, table: Table) -> Mapping[str, sql.Query]:
        """Return the views of the table as it was made."""
        columns = {name: table.columns.get(name, pl.String()) for name in self.columns}
        window, key = tuple(self.window), tuple(self.record_key)
        return sql.views(replace(table, columns=columns, window=window, record_key=key))


def prepare(database: Database, tables: Sequence[Table]) -> None:
    """Create missing tables, columns and views.

    Raises:
        TablesStoppedError: a name does not fit, or an existing table has another key, a column of
            another type, or a column that no row of the sink fills.
    """
    reasons = database.dialect.identifiers.problems(tables)
    with database.alone():
        database.run(database.dialect.create_positions())
        if sql.GENERATION not in database.columns(sql.POSITIONS):
            generation = database.dialect.generation_column()
            database.run(f"ALTER TABLE {sql.POSITIONS} ADD COLUMN {generation}")
        database.run(database.dialect.create_made())
    for table in tables:
        if table.name in reasons:
            continue
        try:
            _prepare(database, table)
        except ConfigurationError as error:
            reasons[table.name] = str(error)
    if reasons:
        raise TablesStoppedError(reasons)


def _prepare(database: Database, table: Table) -> None:
    if table.is_mapped:
        with database.alone():
            reason = _unusable(database, table)
        if reason:
            raise ConfigurationError(reason)
        return
    with database.alone():
        there = database.columns(table.name)
        misfit = _misfit(database, table, there) if there else ""
        if misfit:
            aside = _set_aside(database, table)
        else:
            _fit(database, table, there)
            _show(database, table)
    if misfit:
        try:
            with database.alone():
                _make_again(database, table)
        except ConfigurationError as error:
            raise ConfigurationError(f"{misfit}. {error}. {aside}") from error


def _unusable(database: Database, table: Table) -> str:
    """Return why a table of a user cannot take the rows; empty if it can."""
    there = database.columns(table.name, table.schema)
    shown = sql.qualified(table)
    if not there:
        database.run(database.dialect.delete_positions(), table.topic)  # its rows are gone
        return f"table {shown} does not exist: create it, and the sink loads it within a minute"
    for name in table.columns:
        if name not in there:
            return f"table {shown} has no column {name}: add it, or leave it out of the mapping"
    if misfit := _misfit(database, table, there):
        return misfit
    _require_fillable(table, there)
    is_new = not table.keeps_rows and not _has_positions(database, table)
    if is_new and database.run(f"SELECT 1 FROM {shown} LIMIT 1"):
        return (
            f"table {shown} has rows that this sink has not written, and a new generation of "
            "results would delete them: empty the table, or set keeps_rows = true"
        )
    return ""


def _has_positions(database: Database, table: Table) -> bool:
    at = database.dialect.parameter
    return bool(database.run(f"SELECT 1 FROM {sql.POSITIONS} WHERE topic = {at}", table.topic))


def _misfit(database: Database, table: Table, there: Mapping[str, Column]) -> str:
    """Return why a table cannot hold the rows; notes how columns of other types are filled."""
    database.conversions.pop(table.name, None)
    if set(table.key) not in map(set, database.unique(table)):  # in any order
        needs = f"({', '.join(table.key)})"
        if table.is_mapped:
            return f"table {sql.qualified(table)} has no unique constraint on the columns {needs}"
        key = ", ".join(database.key(table.name))
        return f"table {table.name} has the primary key ({key}), but it needs {needs}"
    made = _recorded(database, table.name)
    is_own = not table.is_mapped and made is not None and made.is_of(database, table)
    conversions = {}
    for name, dtype in table.columns.items():
        wanted = database.dialect.type_of(name, dtype)
        if name not in there or there[name].type == wanted:
            continue
        found = None if is_own else _conversion(database, table, name, there[name])
        if found is None:
            return (
                f"table {table.name} has column {name} with type {there[name].type}, but it needs "
                f"{wanted}, or another type that holds every {dtype}"
            )
        conversions[name] = found
    if conversions:
        database.conversions[table.name] = conversions
    return ""


def _conversion(database: Database, table: Table, name: str, column: Column) -> Conversion | None:
    is_json = table.raw_row is not None and table.member(name) == ROW
    rules = database.dialect.rules
    return conversion(name, table.columns[name], column.type, rules, is_json=is_json)


def _fit(database: Database, table: Table, there: Mapping[str, Column]) -> None:
    """Create a table, or add its missing columns."""
    made = _recorded(database, table.name)
    untouched = not there or (made is not None and made.is_of(database, table))
    wanted = {name: database.dialect.type_of(name, dtype) for name, dtype in table.columns.items()}
    if there:
        _require_fillable(table, there)
        missing = [name for name in wanted if name not in there]
        for name in missing:
            column = f"{quoted(name)} {wanted[name]}"
            database.run(f"ALTER TABLE {quoted(table.name)} ADD COLUMN {column}")
    else:
        missing = list(wanted)
        database.run(database.dialect.create(table))
        database.run(database.dialect.delete_positions(), table.topic)  # its rows are gone
    now = _described(database, table.name, table.window, table.record_key)
    # Of an earlier version: a table that is what the sink makes may be made again.
    if now != made and (untouched or (now.columns == wanted and now.key == list(table.key))):
        record = msgspec.json.encode(now).decode()
        database.run(database.dialect.set_made(), table.name, record)
    if missing:
        database.comment(table)


def _described(
    database: Database, name: str, window: Sequence[str], record_key: Sequence[str]
) -> _Made:
    columns = {column: each.type for column, each in database.columns(name).items()}
    return _Made(columns, database.key(name), list(window), list(record_key))


def _recorded(database: Database, name: str) -> _Made | None:
    found = database.run(database.dialect.select_made(), name)
    return msgspec.json.decode(found[0][0], type=_Made) if found else None


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


def _make_again(database: Database, table: Table) -> None:
    """Drop a table that the sink made, with its views, and create it for the present results."""
    made = _recorded(database, table.name)
    if made is None or not made.is_of(database, table):
        raise ConfigurationError("The sink did not make the table as it is, and leaves it alone")
    views = _own_views(database, made.views(table))
    if bound := database.bound(table.name, views):
        raise ConfigurationError(f"To make the table again would take away {', '.join(bound)}")
    extras = database.extras(table.name, views)
    others = database.others(table.name, views)
    for view in reversed(views):
        database.run(f"DROP VIEW {quoted(view)}")
    database.run(f"DROP TABLE {quoted(table.name)}")
    _fit(database, table, {})
    _show(database, table)
    try:
        for statement in chain(
            extras, (f"SELECT * FROM {quoted(each)} LIMIT 0" for each in others)
        ):
            database.run(statement)
    except database.error as error:
        line = " ".join(str(error).split())
        raise ConfigurationError(f"{statement!r} would fail on the new table: {line}") from error
    _log.info("table %s: was made again, because its key or a type has changed", table.name)


def _own_views(database: Database, views: Mapping[str, sql.Query]) -> list[str]:
    """Return the views that exist as the sink writes them."""
    found = []
    for name, query in views.items():
        definition = database.view(name)
        if definition is not None and sql.is_query(definition, query(list(database.columns(name)))):
            found.append(name)
    return found


def _set_aside(database: Database, table: Table) -> str:
    """Return the advice to rename a table and its views, with the statements."""
    made = _recorded(database, table.name)
    views = made.views(table) if made is not None else sql.views(table)
    renamed = {name: _free(database, name) for name in _own_views(database, views)}
    statements = database.set_aside(table.name, _free(database, table.name), renamed)
    return (
        "Rename the output, or set the table aside, and the sink creates and loads it within a "
        f"minute: {' '.join(f'{each};' for each in statements)}"
    )


def _free(database: Database, name: str) -> str:
    """Return a name that nothing has, made of ``name``."""
    most = database.dialect.identifiers.most_bytes
    for number in count(1):
        end = f"_old{number}"
        free = name.encode()[: most - len(end)].decode(errors="ignore") + end
        if not database.columns(free):
            return free
    raise AssertionError("count has no end")


def _show(database: Database, table: Table) -> None:
    """Create views, or add columns to them; columns that they have keep their places."""
    columns = list(table.columns)
    for name, query in sql.views(table).items():
        definition = database.view(name)
        if definition is None:
            database.run(f"CREATE VIEW {quoted(name)} AS {query(columns)}")
            continue
        shown = list(database.columns(name))
        if not sql.is_query(definition, query(shown)):
            _log.warning(
                "%s is not a view of this sink and stays as it is; to get the view of table %s, "
                "rename it and start the sink again",
                name,
                table.name,
            )
            continue
        added = [column for column in columns if column not in shown]
        if not added:
            continue
        replacing = "CREATE OR REPLACE VIEW"
        if not database.dialect.replaces_views:
            database.run(f"DROP VIEW {quoted(name)}")
            replacing = "CREATE VIEW"
        database.run(f"{replacing} {quoted(name)} AS {query([*shown, *added])}")
