"""The versions that a load adds to a static table: rows that are new or changed, and tombstones.

A version is a record of the table's raw topic: the row as the file has it, and before it event
time, whether it is a tombstone, and the place in the file.  The first load is valid from the
earliest event time on, a later one from its own time on.

A row that does not fit the schema is written once, too: ingest makes a dead letter of it, with the
place.  See docs/semantics.md, "Static tables".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tidemark.core.time.event_time import EARLIEST_MS
from tidemark.plan.physical import SourcePlan
from tidemark.plan.static_table import DELETED, LEAD
from tidemark.serde.decoders import record_decoder
from tidemark.serde.formats.source_format import CsvFormat
from tidemark.serde.records import RecordBatch

_BEFORE = re.compile(rb'\{"@valid_from":-?\d+,"@deleted":(?:true|false),"@place":"[^"]*",')
_PLAIN = re.compile(r"[^a-zA-Z0-9_.:-]")
_ROW, _NUMBER = "@row", "@number"


@dataclass(frozen=True, slots=True)
class StaticRows:
    """All rows of a table as they are now.

    ``rows``: each as a record of the source's format, without the columns of versions.
    ``places``: of each, its line in the file or its number, from 1.  ``name``: of the file.
    """

    rows: Sequence[bytes]
    places: Sequence[int]
    name: str


@dataclass
class StaticVersions:
    """The versions of a static table so far; ``source``: its plan."""

    source: SourcePlan
    is_loaded: bool = False
    _last: pl.DataFrame = field(init=False)
    _refused: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        table = self.source.static
        assert table is not None
        self._key = list(table.key)
        schema = self.source.schema.only({*self._key, DELETED})
        self._decoder = record_decoder(self.source.format, schema)
        self._last = self._of([])

    def add(self, versions: Sequence[bytes]) -> None:
        """Take versions that the raw topic has, in their order."""
        if versions:
            self.is_loaded = True
            added = pl.concat([self._last, self._of(versions)])
            self._last = added.unique(self._key, keep="last", maintain_order=True)

    def load(self, read: StaticRows, now_ms: int) -> list[bytes]:
        """Return the versions that make the table what it is now, and take them.

        Tombstones come first.  Of several rows with one key, the last counts.
        """
        from_ms = now_ms if self.is_loaded else EARLIEST_MS
        refused = set(self._refused)
        made = [
            self._version(row, from_ms, f"{read.name}:{place}")
            for row, place in zip(read.rows, read.places, strict=True)
        ]
        now = self._of(made)
        before = self._last.filter(~pl.col(DELETED))
        gone = before.join(now, on=self._key, how="anti")[_ROW].to_list()
        same = before.select(*self._key, _ROW)
        latest = now.unique(self._key, keep="last", maintain_order=True)
        changed = latest.join(same, on=[*self._key, _ROW], how="anti")[_NUMBER].to_list()
        added = sorted({*changed, *self._newly_refused(made, now, refused)})
        versions = [
            *(self._version(row, from_ms, read.name, deleted=True) for row in gone),
            *(made[number] for number in added),
        ]
        self.add(versions)
        return versions

    def _newly_refused(
        self, made: Sequence[bytes], now: pl.DataFrame, before: set[bytes]
    ) -> list[int]:
        """Return the numbers of rows without a key that no load has written yet."""
        without = np.setdiff1d(np.arange(len(made)), now[_NUMBER].to_numpy())
        return [number for number in without.tolist() if self._row(made[number]) not in before]

    def _of(self, versions: Sequence[bytes]) -> pl.DataFrame:
        """Return key, tombstone, row and number of the versions that have a key."""
        batch = RecordBatch.of_values(self.source.name, 0, 0, versions, 0)
        parsed = self._decoder.parse(batch)
        rows = list(map(self._row, versions))
        numbers = pl.Series(_NUMBER, parsed.records, pl.Int64)
        texts = pl.Series(_ROW, rows, pl.Binary).gather(numbers)
        found = parsed.columns.with_columns(texts, numbers).drop_nulls(self._key)
        keyed = set(found[_NUMBER])
        self._refused |= {row for number, row in enumerate(rows) if number not in keyed}
        return found

    @property
    def _delimiter(self) -> bytes | None:
        """The delimiter of CSV; None if versions are JSON."""
        form = self.source.format
        return form.delimiter.encode() if isinstance(form, CsvFormat) else None

    def _version(self, row: bytes, from_ms: int, place: str, *, deleted: bool = False) -> bytes:
        """Return the version of a row."""
        where = _PLAIN.sub("_", place).encode()
        is_deleted = b"true" if deleted else b"false"
        if self._delimiter is None:
            return b'{"@valid_from":%d,"@deleted":%s,"@place":"%s",%s' % (
                from_ms,
                is_deleted,
                where,
                row[1:],
            )
        names, _, values = row.partition(b"\n")
        head = [name.encode() for name in LEAD]
        lead = [b"%d" % from_ms, is_deleted, where]
        return b"\n".join(map(self._delimiter.join, ([*head, names], [*lead, values])))

    def _row(self, version: bytes) -> bytes:
        """Return the row of a version."""
        if self._delimiter is None:
            return b"{" + _BEFORE.sub(b"", version, count=1)
        lines = version.split(b"\n", 1)
        return b"\n".join(line.split(self._delimiter, len(LEAD))[-1] for line in lines)
