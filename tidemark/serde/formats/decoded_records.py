"""The decoder of records whose values a format decodes to Python values.

The schema's type, leniency, defaults and reasons are those of JSON records.  Whether a record is
good never depends on its neighbours: a whole batch is converted at once, and if anything in it is
wrong, record by record.
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tidemark.core.rows.row_size import MAX_RECORD_BYTES, too_large
from tidemark.core.rows.schema import Schema
from tidemark.serde.formats.flushes import is_flush
from tidemark.serde.formats.value_decoder import UnreadableValueError, ValueDecoder
from tidemark.serde.object_count import ObjectCount
from tidemark.serde.objects.record_columns import record_columns
from tidemark.serde.objects.record_type import RecordType, validation_reason
from tidemark.serde.parsed_batch import (
    DeadRecord,
    ParsedBatch,
    ParsedRecords,
    most_rows,
    with_columns,
)
from tidemark.serde.records import RecordBatch

_TEXT_FOR_NUMBER = re.compile(r"column (.*?): expected (?:int|float), got (?:str$|')")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*[A-Za-z0-9+/]{2,4}={0,2}")


class DecodedRecords:
    """The decoder of one source."""

    def __init__(
        self,
        values: ValueDecoder,
        schema: Schema,
        time_columns: Sequence[str] = (),
        *,
        reads_null: bool = False,
        number_hint: str = "",
    ) -> None:
        """Decode the columns of ``schema``; ``time_columns`` of dead records too, if possible.

        ``reads_null``: whether a record without a value may be a row.  ``number_hint``: what a
        reason adds where a number is expected and the value is a text that may be base64.
        """
        self._values = values
        self._type = RecordType(schema)
        self._times = RecordType(schema.only(time_columns))
        self._no_times = pl.DataFrame(schema=self._times.schema)
        self._has_times = bool(time_columns)
        self._count = ObjectCount(schema)
        self._reads_null = reads_null
        self._number_hint = number_hint

    def parse(self, batch: RecordBatch) -> ParsedBatch:
        """Decode the values of a batch."""
        decoded = [
            self._decoded(value, key, headers)
            for value, key, headers in zip(batch.values, batch.keys, batch.headers, strict=True)
        ]
        converted = self._type.converted
        if (parsed := self._all_at_once(decoded, batch)) is not None:
            return parsed
        self._type.converted = converted
        collected = ParsedRecords(self._type, self._times)
        for index, values in enumerate(decoded):
            if isinstance(values, str):
                collected.add_dead(index, values)
            else:
                self._add_checked(collected, index, values, batch)
        return collected.batch()

    def _decoded(self, value: Any, key: bytes | None, headers: Any) -> Sequence[Any] | str:
        """Return the rows of a record as Python values, or the reason why it is dead."""
        if value is None and (not self._reads_null or is_flush(headers)):
            return ()
        try:
            decoded = self._values.decode(value, key, headers)
        except UnreadableValueError as error:
            return str(error)
        values = decoded if isinstance(decoded, list) else (decoded,)
        if self._type.schema.raw is not None and value is not None:
            raw_bytes = len(value) * len(values)
            if raw_bytes > MAX_RECORD_BYTES:
                return too_large(raw_bytes)
        try:
            least_bytes = self._count.least_bytes_of(values, len(value or b""))
        except msgspec.ValidationError as error:
            return validation_reason(error)
        return too_large(least_bytes) if least_bytes else values

    def _all_at_once(
        self, decoded: Sequence[Sequence[Any] | str], batch: RecordBatch
    ) -> ParsedBatch | None:
        """Return a batch, or None if any row does not fit the schema, or a record has too many."""
        converted = self._type.converted
        dead = [DeadRecord(n, each) for n, each in enumerate(decoded) if isinstance(each, str)]
        values = [() if isinstance(each, str) else each for each in decoded] if dead else decoded
        counts = np.fromiter(map(len, values), np.intp, len(values))
        if counts.max(initial=0) > most_rows(self._type.schema):
            return None
        try:
            rows = self._type.rows(list(chain.from_iterable(values)))
        except msgspec.ValidationError:
            return None
        records = np.repeat(np.arange(len(values)), counts)
        has_raw = self._type.schema.raw is not None
        raw = [batch.values[record] or b"" for record in records.tolist()] if has_raw else ()
        parsed = ParsedBatch(
            records,
            pl.DataFrame(),
            dead,
            np.setdiff1d(np.flatnonzero(counts == 0), [each.index for each in dead]).tolist(),
            np.empty(0, np.intp),
            self._no_times,
            self._type.converted - converted,
        )
        return with_columns(parsed, record_columns(self._type, rows, raw))

    def _add_checked(
        self, parsed: ParsedRecords, index: int, values: Sequence[Any], batch: RecordBatch
    ) -> None:
        converted = self._type.converted
        try:
            rows = self._type.rows(values)
        except msgspec.ValidationError as error:
            self._type.converted = converted
            reason = validation_reason(error)
            if self._number_hint and _is_base64_for_number(reason, values[0]):
                reason += self._number_hint
            parsed.add_dead(index, reason, self._time_rows(values))
        else:
            has_raw = self._type.schema.raw is not None
            parsed.add(index, rows, [batch.values[index] or b""] * len(rows) if has_raw else ())

    def _time_rows(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the time columns of a record whose only fault is another column."""
        if not self._has_times:
            return ()
        try:
            return self._times.rows(values)
        except msgspec.ValidationError:
            return ()


def _is_base64_for_number(reason: str, value: Any) -> bool:
    """Return whether a reason is of a number's column in which a record has base64 text."""
    wrong = _TEXT_FOR_NUMBER.match(reason)
    for name in wrong[1].split(".") if wrong else ():
        value = value.get(name) if isinstance(value, dict) else None
    return isinstance(value, str) and len(value) % 4 == 0 and bool(_BASE64.fullmatch(value))
