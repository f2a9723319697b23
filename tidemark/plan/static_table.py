"""Static tables: where their rows come from, and the form of their versions in a raw topic.

A static table is a raw topic that ingest writes: each load adds the versions that changed
(tidemark/statics, docs/semantics.md, "Static tables").
"""

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tidemark.core.rows.schema import Field, Scalar
from tidemark.errors import without_password
from tidemark.serde.formats.source_format import JSON, CsvFormat, SourceFormat

VALID_FROM = "@valid_from"  # event time of a version, ms
DELETED = "@deleted"  # whether a version says that its key has no values
PLACE = "@place"  # file and line, or row, from which a version comes; no column

LEAD = (VALID_FROM, DELETED, PLACE)
"""The columns that a version has before those of its row."""

FIELDS = (
    Field(VALID_FROM, Scalar(pl.Int64()), required=True),
    Field(DELETED, Scalar(pl.Boolean()), required=True),
)
"""The columns of a version beside those of its row."""

KEEP_MS = 2**62
"""How much older than a row a version may be: any age, and the sum with a time does not overflow.
"""

CSV, PARQUET, SQLITE, POSTGRESQL = "csv", "parquet", "sqlite", "postgresql"

_SUFFIXES = {".csv": CSV, ".tsv": CSV, ".parquet": PARQUET}
_COMPRESSED = (".gz", ".bz2", ".xz")
_SCHEMES = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "postgres": POSTGRESQL}


@dataclass(frozen=True)
class StaticTable:
    """The rows that a static table is loaded from.

    ``address``: a file, or a database; it may hold a password.  ``key``: the columns of the key.
    ``query``: the rows of a database.  ``delimiter``: of CSV.  ``reload_ms``: how often the rows
    are read again; None: only when ingest starts.
    """

    address: str = field(repr=False)
    key: tuple[str, ...]
    query: str | None = None
    delimiter: str = ","
    reload_ms: int | None = None

    @property
    def kind(self) -> str | None:
        """What the address names: CSV, PARQUET, SQLITE or POSTGRESQL; None if it is unknown."""
        scheme, colon, _ = self.address.partition(":")
        if colon and scheme in _SCHEMES:
            return _SCHEMES[scheme]
        return _SUFFIXES.get(_suffix(self.address))

    @property
    def is_query(self) -> bool:
        """Whether the rows are the result of a query."""
        return self.kind in (SQLITE, POSTGRESQL)

    @property
    def path(self) -> Path:
        """The file; not of PostgreSQL."""
        return Path(self.address.partition(":")[2] if self.kind == SQLITE else self.address)

    @property
    def format(self) -> SourceFormat:
        """The format of versions in the raw topic."""
        if self.kind != CSV:
            return JSON
        return CsvFormat(None, self.delimiter, added=len(LEAD))

    def __str__(self) -> str:
        """Return the address without a password."""
        return without_password(self.address) if self.kind == POSTGRESQL else self.address


def usual_delimiter(address: str) -> str:
    """Return the delimiter of a file without a declared one: of ``.tsv`` it is the tabulator."""
    return "\t" if _suffix(address) == ".tsv" else ","


def _suffix(address: str) -> str:
    """Return the end of a file's name, without that of its compression."""
    name = Path(address)
    return (name.with_suffix("") if name.suffix in _COMPRESSED else name).suffix
