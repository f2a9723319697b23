"""Decode raw records of JSON to columns: one object each, or an array of objects.  Strict.

Whether a record is good never depends on its neighbours.  The fast path decodes a whole batch of
objects, the next one a whole batch with arrays.  If anything in the batch is wrong, the slow path
decodes each record with the same types and limits.
The rules (docs/semantics.md, "Raw records"):

* blank: no value (a tombstone), or only white space;
* a byte order mark, CRLF and white space around the document are accepted;
* dead: not UTF-8 anywhere, not JSON, more than one document, not an object or array of objects,
  an empty array, nested deeper than MAX_NESTING, or a column with a value of another type (a bool
  is not an int, ``1.0`` is not an int, an int is a float); an int beyond its column's width; a
  number beyond float; half of a surrogate pair;
* missing columns are null, or their default; members that are not columns are skipped; if members
  have the same name, the last one counts.

A reason names the column, or the byte of the value, where decoding stopped.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, cast

import msgspec
import numpy as np
import polars as pl

from tidemark.core.rows.row_size import too_large
from tidemark.core.rows.schema import Schema
from tidemark.serde.formats.framing import HEADER_BYTES, without_id
from tidemark.serde.formats.text_encoding import BOM, utf_16_hint
from tidemark.serde.formats.value_decoder import UnreadableValueError
from tidemark.serde.nesting import MAX_NESTING, any_nested_too_deep, nested_too_deep
from tidemark.serde.object_count import ObjectCount
from tidemark.serde.objects.record_columns import RecordColumns, record_columns
from tidemark.serde.objects.record_type import RecordType, validation_reason
from tidemark.serde.parsed_batch import Indices, ParsedBatch, ParsedRecords, most_rows, with_columns
from tidemark.serde.records import RecordBatch

EMPTY_ARRAY = "expected an object, got an empty array"

_SPACE = b" \t\r\n"
_HALF_PAIR = re.compile(rb'\\u[dD][89abAB][0-9a-fA-F]{2}"')
_BYTE = re.compile(r"^JSON is malformed: (.*) \(byte (\d+)\)$")

_NOT_A_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|(NaN|-?Infinity)(?=\s*(?:[,\]}]|$))', re.DOTALL)

_BLOCK = 256  # documents that are in memory at the same time
_FAULTS = (UnicodeDecodeError, msgspec.DecodeError, RecursionError)


class _TooLargeError(ValueError):
    """The rows of a record would be too large; the text is the reason."""


class _UnfitError(Exception):
    """A record of a batch does not fit; each has to be decoded alone."""


class JsonRecords:
    """The decoder of one source."""

    def __init__(
        self, schema: Schema, time_columns: Sequence[str] = (), *, framed: bool = False
    ) -> None:
        """Decode the columns of ``schema``; ``time_columns`` of dead records too, if possible.

        ``framed``: whether values begin with the id of a schema.
        """
        self._framed = framed
        self._type = RecordType(schema)
        self._times = RecordType(schema.only(time_columns))
        self._count = ObjectCount(schema)
        self._no_times = pl.DataFrame(schema=self._times.schema)
        self._decode = self._type.json_decoder().decode
        self._decode_document = self._type.json_document_decoder().decode
        self._decode_array = self._type.json_array_decoder().decode
        self._decode_times = self._times.json_decoder().decode if time_columns else None
        self._decode_array_of_times = self._times.json_array_decoder().decode

    def parse(self, batch: RecordBatch) -> ParsedBatch:
        """Decode the values of a batch."""
        converted = self._type.converted
        texts = self._checked(batch.values)
        if texts is not None:
            for parse in (self._objects, self._documents):
                with suppress(*_FAULTS, _UnfitError):
                    return parse(texts, converted)
                self._type.converted = converted
        return self._one_by_one(batch.values)

    def _checked(self, values: Sequence[bytes | None]) -> Sequence[bytes] | None:
        """Return the texts of values if all are UTF-8, and none is too deep or may be too large.

        Otherwise return None.
        """
        try:
            present = cast(Sequence[bytes], values)  # where one is None, a call raises TypeError
            if self._framed:
                present = list(map(without_id, present))
            if not all(map(bytes.isascii, present)):
                b"\n".join(present).decode()
        except (TypeError, UnicodeDecodeError, UnreadableValueError):
            return None
        longest = max(map(len, present), default=0)
        if longest > self._count.short_bytes and any(map(self._count.may_be_large, present)):
            return None
        if longest > 2 * MAX_NESTING and any_nested_too_deep(present, longest):
            return None
        return present

    def _objects(self, texts: Sequence[bytes], converted: int) -> ParsedBatch:
        """Return a batch of objects; raise if any record is not one that fits."""
        rows = map(self._decode, texts)
        raw = () if self._type.schema.raw is None else list(map(self._bare, texts))
        columns = record_columns(self._type, rows, raw)
        return self._good(np.arange(len(texts)), columns, converted)

    def _documents(self, texts: Sequence[bytes], converted: int) -> ParsedBatch:
        """Return a batch of objects and arrays; raise if any record is not one that fits."""
        if self._type.schema.raw is not None or not any(map(_is_array, texts)):
            raise _UnfitError
        counts: list[int] = []
        rows = chain.from_iterable(self._arrays(texts, counts))
        columns = record_columns(self._type, rows)
        return self._good(np.repeat(np.arange(len(texts)), counts), columns, converted)

    def _arrays(self, texts: Sequence[bytes], counts: list[int]) -> Iterator[Sequence[Any]]:
        """Yield the rows of each record; add their numbers to ``counts``.

        Raises:
            _UnfitError: a record has no rows, or too many.
        """
        documents = map(self._decode_document, texts)
        while block := list(islice(documents, _BLOCK)):
            arrays = [each if type(each) is list else (each,) for each in block]
            own = list(map(len, arrays))
            if not all(own) or max(own) > most_rows(self._type.schema):
                raise _UnfitError
            counts += own
            yield from arrays

    def _good(self, records: Indices, columns: RecordColumns, converted: int) -> ParsedBatch:
        """Return a batch in which all records are JSON; ``converted``: before it."""
        no_records = np.empty(0, np.intp)
        converted = self._type.converted - converted
        parsed = ParsedBatch(records, pl.DataFrame(), (), (), no_records, self._no_times, converted)
        return with_columns(parsed, columns)

    def _one_by_one(self, values: Sequence[bytes | None]) -> ParsedBatch:
        parsed = ParsedRecords(self._type, self._times)
        for index, value in enumerate(values):
            try:
                text = b"" if value is None else self._read_as(value)
            except UnreadableValueError as error:
                parsed.add_dead(index, str(error))
                continue
            if not text.strip():
                parsed.add(index, ())
                continue
            converted = self._type.converted
            try:
                rows = self._rows(text)
                if rows:
                    parsed.add(index, rows, self._raw(text))
                else:
                    parsed.add_dead(index, EMPTY_ARRAY)
            except _TooLargeError as error:
                parsed.add_dead(index, str(error))
            except _FAULTS as error:
                self._type.converted = converted
                parsed.add_dead(index, json_reason(error, text), self._time_rows(error, text))
        return parsed.batch()

    def _rows(self, text: bytes) -> list[Any]:
        """Return the objects of a record."""
        text.decode()
        if nested_too_deep(text):
            raise RecursionError
        if least_bytes := self._count.least_bytes(text):
            raise _TooLargeError(too_large(least_bytes))
        if _is_array(text):
            return self._decode_array(text)
        return [self._decode(text)]

    def _read_as(self, value: bytes) -> bytes:
        """Return the text of a record as it is read: with lenient columns, NaN is a text.

        Raises:
            UnreadableValueError: it has no id of a schema.
        """
        text = without_bom(without_id(value) if self._framed else value)
        return with_texts(text) if self._type.is_lenient else text

    def _raw(self, text: bytes) -> Sequence[bytes]:
        """Return the text of each object of a record, if the schema has it."""
        if self._type.schema.raw is None:
            return ()
        return list(map(bytes, _ELEMENTS.decode(text))) if _is_array(text) else [self._bare(text)]

    def _bare(self, text: bytes) -> bytes:
        """Return the text of a record without the spaces in place of the id of a schema."""
        return text[HEADER_BYTES:] if self._framed else text

    def _time_rows(self, error: Exception, text: bytes) -> list[Any]:
        """Return the time columns of a record whose only fault is another column."""
        if self._decode_times is None or not isinstance(error, msgspec.ValidationError):
            return []
        try:
            if _is_array(text):
                return self._decode_array_of_times(text)
            return [self._decode_times(text)]
        except msgspec.DecodeError:
            return []


def with_texts(text: bytes) -> bytes:
    """Return JSON text with NaN and Infinity, which are not JSON, as texts."""
    if b"NaN" not in text and b"Infinity" not in text:
        return text
    return _NOT_A_NUMBER.sub(lambda m: b'"%s"' % m[1] if m[1] else m[0], text)


_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


def _is_array(text: bytes) -> bool:
    return text.lstrip(_SPACE).startswith(b"[")


def without_bom(value: bytes) -> bytes:
    """Return a value with spaces in place of a byte order mark."""
    # Replaced by spaces, so that byte positions in reasons stay those of the record.
    return b"   " + value[3:] if value.startswith(BOM) else value


def json_reason(error: Exception, text: bytes) -> str:
    """Return a short, stable reason: what is wrong, and where."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 (byte {error.start}){utf_16_hint(text)}"
    if isinstance(error, RecursionError):
        return f"nested deeper than {MAX_NESTING}"
    message = str(error)
    if isinstance(error, msgspec.ValidationError):
        return validation_reason(error)
    malformed = _BYTE.match(message)
    if malformed is None:
        # The decoder reports half a surrogate pair at the end of a string as truncated, too.
        half = text.rstrip().endswith((b"}", b"]")) and _HALF_PAIR.search(text)
        fault = "half a surrogate pair" if half else "ends too early"
        return f"not JSON: {fault} (byte {half.start() if half else len(text)})"
    hint = utf_16_hint(text)
    if text.startswith(b"\0") and text[HEADER_BYTES:].startswith((b"{", b"[")):
        hint = "; it begins with the id of a schema: format='json-schema' reads it"
    return f"not JSON: {malformed[1]} (byte {malformed[2]}){hint}"
