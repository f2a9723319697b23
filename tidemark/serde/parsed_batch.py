"""Parsed batches: what every decoder of raw records returns, and the rules that all share.

A decoder reads one record at a time.  A record becomes one row, or several in the order of their
position.  If any of its rows does not fit the schema, the record is dead as a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.rows.row_size import MAX_RECORD_BYTES, VALUE_BYTES, too_large
from tidemark.core.rows.schema import Schema
from tidemark.serde.objects.record_columns import Fault, RecordColumns, record_columns
from tidemark.serde.objects.record_type import RecordType
from tidemark.serde.records import RecordBatch

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A record that cannot be decoded, by its index in the batch, with the reason."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedBatch:
    """A decoded batch; all indices are positions of records in the batch.

    Args:
        records: the record of each row; ascends, and repeats where a record has several rows.
        columns: the value columns of the rows.
        dead: the records that cannot be decoded.
        blank: the records without content.
        dead_with_time: the record of each row of ``times``; ascends, and may repeat.
        times: the time columns of dead records whose only fault is another column.
        converted: the number of lenient values that were converted.
    """

    records: Indices
    columns: pl.DataFrame
    dead: Sequence[DeadRecord]
    blank: Sequence[int]
    dead_with_time: Indices
    times: pl.DataFrame
    converted: int = 0


class RecordDecoder(Protocol):
    """Decodes the records of one source."""

    def parse(self, batch: RecordBatch) -> ParsedBatch:
        """Return the rows of a batch; the verdict on a record depends on that record alone."""


def has_repeats(records: Indices) -> bool:
    """Return whether a record has several rows; ``records``: of each row, in order."""
    return bool((records[1:] == records[:-1]).any())


def most_rows(schema: Schema) -> int:
    """Return the largest number of rows of a record: rows of nulls up to MAX_RECORD_BYTES."""
    return MAX_RECORD_BYTES // (len(schema) * VALUE_BYTES)


@dataclass
class ParsedRecords:
    """Collects records, decoded one by one in order, to a ParsedBatch.

    ``type_``: of the rows.  ``times``: of the time columns of dead records.
    """

    type_: RecordType
    times: RecordType
    records: list[int] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    dead: list[DeadRecord] = field(default_factory=list)
    blank: list[int] = field(default_factory=list)
    dead_with_time: list[int] = field(default_factory=list)
    time_rows: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._converted = self.type_.converted

    def add(self, index: int, rows: Sequence[Any], raw: Sequence[bytes] = ()) -> None:
        """Add the rows of a record; no rows is blank.  ``raw``: the bytes of each row."""
        if not rows:
            self.blank.append(index)
            return
        if len(rows) > most_rows(self.type_.schema):
            least_bytes = len(rows) * len(self.type_.schema) * VALUE_BYTES
            self.dead.append(DeadRecord(index, too_large(least_bytes)))
            return
        self.records.extend([index] * len(rows))
        self.rows.extend(rows)
        self.raw.extend(raw)

    def add_dead(self, index: int, reason: str, time_rows: Sequence[Any] = ()) -> None:
        """Add a dead record; ``time_rows``: of the type ``times``, if only another column fails."""
        self.dead.append(DeadRecord(index, reason))
        self.dead_with_time.extend([index] * len(time_rows))
        self.time_rows.extend(time_rows)

    def batch(self) -> ParsedBatch:
        """Return all records that were added."""
        times = _good_times(self)
        parsed = ParsedBatch(
            np.array(self.records, np.intp),
            pl.DataFrame(),
            self.dead,
            self.blank,
            *times,
            self.type_.converted - self._converted,
        )
        return with_columns(parsed, record_columns(self.type_, self.rows, self.raw))


def _good_times(parsed: ParsedRecords) -> tuple[Indices, pl.DataFrame]:
    """Return records and columns of the time rows, without records in which a time is faulty."""
    records = np.array(parsed.dead_with_time, np.intp)
    found = record_columns(parsed.times, parsed.time_rows)
    if not found.faults:
        return records, found.columns
    good = ~np.isin(records, records[[fault.row for fault in found.faults]])
    return records[good], found.columns.filter(pl.Series(good))


def with_columns(parsed: ParsedBatch, found: RecordColumns) -> ParsedBatch:
    """Return a batch with the columns of its rows.

    A row with a value that does not fit its column makes its record dead.
    """
    parsed = replace(parsed, columns=found.columns, converted=parsed.converted + found.converted)
    return _without_faulty(parsed, found.faults) if found.faults else parsed


def _without_faulty(parsed: ParsedBatch, faults: Sequence[Fault]) -> ParsedBatch:
    """Return a batch whose faulty records are dead; those with good times still move time."""
    records, columns, times = parsed.records, parsed.columns, parsed.times
    first: dict[int, str] = {}
    for fault in sorted(faults, key=lambda each: each.row):
        record = int(records[fault.row])
        begin, end = np.searchsorted(records, [record, record + 1])
        element = f"element {fault.row - begin}: " if end - begin > 1 else ""
        first.setdefault(record, f"{element}{fault.reason}")
    dead = [*parsed.dead, *(DeadRecord(record, reason) for record, reason in first.items())]
    untimed = {int(records[each.row]) for each in faults if each.column in times.columns}
    is_faulty = np.isin(records, list(first))
    moves = is_faulty & ~np.isin(records, list(untimed)) & bool(times.width)
    with_time = np.concatenate([parsed.dead_with_time, records[moves]])
    order = np.argsort(with_time, kind="stable")
    moving = columns.filter(pl.Series(moves)).select(times.columns)
    return replace(
        parsed,
        records=records[~is_faulty],
        columns=columns.filter(pl.Series(~is_faulty)),
        dead=sorted(dead, key=lambda each: each.index),
        dead_with_time=with_time[order],
        times=pl.concat([times, moving])[order] if times.width else times,
    )
