"""The decoder of records whose values a format decodes to Python values.

The schema's type, leniency, defaults and reasons are those of JSON records.  Whether a record is
good never depends on its neighbours: a whole batch is converted at once, and if anything in it is
wrong, record by record.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from tidemark.core.rows.row_size import too_large
from tidemark.core.rows.schema import Schema
from tidemark.serde.formats.value_decoder import UnreadableValueError, ValueDecoder
from tidemark.serde.object_count import ObjectCount
from tidemark.serde.parsed_batch import ParsedBatch, ParsedRecords
from tidemark.serde.record_type import RecordType, validation_reason
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
        self._has_times = bool(time_columns)
        self._count = ObjectCount(schema)
        self._reads_null = reads_null
        self._number_hint = number_hint

    def parse(self, batch: RecordBatch) -> ParsedBatch:
        """Decode the values of a batch."""
        parsed = ParsedRecords(self._type, self._times)
        decoded = [
            self._decoded(value, key, headers)
            for value, key, headers in zip(batch.values, batch.keys, batch.headers, strict=True)
        ]
        rows = self._all_rows(decoded)
        for index, values in enumerate(decoded):
            if isinstance(values, str):
                parsed.add_dead(index, values)
            elif rows is not None:
                self._add(parsed, index, [next(rows) for _ in values], batch)
            else:
                self._add_checked(parsed, index, values, batch)
        return parsed.batch()

    def _decoded(self, value: Any, key: bytes | None, headers: Any) -> Sequence[Any] | str:
        """Return the rows of a record as Python values, or the reason why it is dead."""
        if value is None and not self._reads_null:
            return ()
        try:
            decoded = self._values.decode(value, key, headers)
        except UnreadableValueError as error:
            return str(error)
        values = decoded if isinstance(decoded, list) else (decoded,)
        try:
            least_bytes = self._count.least_bytes_of(values, len(value or b""))
        except msgspec.ValidationError as error:
            return validation_reason(error)
        return too_large(least_bytes) if least_bytes else values

    def _all_rows(self, decoded: Sequence[Sequence[Any] | str]) -> Iterator[Any] | None:
        """Return an iterator of all rows as the schema's type, or None if any does not fit."""
        converted = self._type.converted
        values = (each for each in decoded if not isinstance(each, str))
        try:
            return iter(self._type.all_rows(list(chain.from_iterable(values))))
        except msgspec.ValidationError:
            self._type.converted = converted
            return None

    def _add_checked(
        self, parsed: ParsedRecords, index: int, values: Sequence[Any], batch: RecordBatch
    ) -> None:
        converted = self._type.converted
        try:
            rows = _rows(self._type, values)
        except msgspec.ValidationError as error:
            self._type.converted = converted
            reason = validation_reason(error)
            if self._number_hint and _is_base64_for_number(reason, values[0]):
                reason += self._number_hint
            parsed.add_dead(index, reason, self._time_rows(values))
        else:
            self._add(parsed, index, rows, batch)

    def _add(
        self, parsed: ParsedRecords, index: int, rows: Sequence[Any], batch: RecordBatch
    ) -> None:
        has_raw = self._type.schema.raw is not None
        parsed.add(index, rows, [batch.values[index] or b""] * len(rows) if has_raw else ())

    def _time_rows(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the time columns of a record whose only fault is another column."""
        if not self._has_times:
            return ()
        try:
            return _rows(self._times, values)
        except msgspec.ValidationError:
            return ()


def _is_base64_for_number(reason: str, value: Any) -> bool:
    """Return whether a reason is of a number's column in which a record has base64 text."""
    wrong = _TEXT_FOR_NUMBER.match(reason)
    for name in wrong[1].split(".") if wrong else ():
        value = value.get(name) if isinstance(value, dict) else None
    return isinstance(value, str) and len(value) % 4 == 0 and bool(_BASE64.fullmatch(value))


def _rows(type_: RecordType, values: Sequence[Any]) -> list[Any]:
    """Return the rows of a record; an error names the position of a row if there are several."""
    return [type_.row(values[0])] if len(values) == 1 else type_.all_rows(values)
