"""The file that TIDEMARK_SINK_MAPPING names: which existing tables take the rows of which outputs.

See docs/sinks.md, "Existing tables".  A mapped table belongs to the user: the sink does not create
or change it, and makes no views of it.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tidemark.core.windows.pane import RETRACTED
from tidemark.errors import ConfigurationError
from tidemark.sinks.table import Table, require_distinct

SETTING = "TIDEMARK_SINK_MAPPING"
_AS_THEY_ARE = ("parquet", "jsonl", "kafka", "http", "https")


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """Where the rows of an output go.

    ``columns``: the column of the table for each column of the output that is written; None: all,
    under their own names.  ``keeps_rows``: a new generation does not delete the rows before it.
    """

    table: str = ""
    schema: str = ""
    columns: dict[str, str] | None = None
    keeps_rows: bool = False


def mapped(tables: Sequence[Table], path: str) -> tuple[Table, ...]:
    """Return tables as the file at ``path`` maps them; as they are if ``path`` is empty.

    Raises:
        ConfigurationError: the file cannot be read, or does not fit the tables.
    """
    if not path:
        return tuple(tables)
    try:
        entries = msgspec.convert(_read(path), dict[str, _Entry])
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{SETTING}: {path}: {error}") from None
    known = [table.name for table in tables]
    for name in entries:
        if name not in known:
            raise ConfigurationError(
                f"{SETTING}: {path}: no table {name!r}; there are {', '.join(known)}"
            )
    found = tuple(
        _mapped(table, entries[table.name], f"{SETTING}: {path}: [{table.name}]")
        if table.name in entries
        else table
        for table in tables
    )
    require_distinct(found, f"{SETTING}: {path}:")
    return found


def require_mapping(address: str, tables: Sequence[Table]) -> None:
    """Raise if some table is mapped, and the sink of an address delivers records as they are.

    Raises:
        ConfigurationError: names the setting.
    """
    scheme = address.partition(":")[0]
    if scheme in _AS_THEY_ARE and any(table.is_mapped for table in tables):
        raise ConfigurationError(f"{SETTING}: a sink to {scheme}: has no tables to map to")


def _read(path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{SETTING}: {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{SETTING}: {path} is not TOML: {error}") from None


def _mapped(table: Table, entry: _Entry, where: str) -> Table:
    if table.raw_keys:
        raise ConfigurationError(f"{where}: dead letters have a table of their own form only")
    names = {name: name for name in table.columns} if entry.columns is None else entry.columns
    for name in names:
        if name not in table.columns:
            raise ConfigurationError(
                f"{where}: no column {name!r}; there are {', '.join(table.columns)}"
            )
    for name in table.key:
        if name not in names:
            raise ConfigurationError(
                f"{where}: columns lacks {name!r}, which is part of the key of the rows"
            )
    if len(set(names.values())) < len(names) or RETRACTED in names.values():
        raise ConfigurationError(
            f"{where}: columns names a column twice, or {RETRACTED!r}, which the sink keeps"
        )
    return replace(
        table,
        name=entry.table or table.name,
        schema=entry.schema,
        is_mapped=True,
        keeps_rows=entry.keeps_rows,
        columns={to: table.columns[name] for name, to in names.items()},
        key=tuple(names[name] for name in table.key),
        window=tuple(names[name] for name in table.window),
        record_key=tuple(names[name] for name in table.record_key if name in names),
        members={to: table.member(name) for name, to in names.items()},
        instants=frozenset(to for name, to in names.items() if name in table.instants),
    )
