"""Decode raw records, one JSON object each, to columns.  Strict.

Whether a record is good never depends on its neighbours.  The fast path decodes a whole batch.  If
anything in the batch is wrong, the slow path decodes each record with the same decoder and limits.
The rules (docs/semantics.md, "Raw records"):

* blank: no value (a tombstone), or only white space;
* a byte order mark, CRLF and white space around the object are accepted;
* dead: not UTF-8 anywhere, not JSON, more than one document, not an object, nested deeper than
  MAX_NESTING, or a column with a value of another type (a bool is not an int, ``1.0`` is not an
  int, an int is a float); an int beyond its column's width; a number beyond float; half of a
  surrogate pair;
* missing columns are null; members that are not columns are skipped; if members have the same
  name, the last one counts.

A reason names the column, or the byte of the value, where decoding stopped.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, cast

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from polars.datatypes import DataTypeClass

from tidemark.errors import PipelineError

MAX_NESTING = 128
"""Maximum nesting of a record; fixed, and far below the limit of the interpreter's stack."""

_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_STEPS = np.zeros(256, np.int8)  # into and out of a level, by byte
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1
_NO_TYPE = re.compile(r"Expected `(.+?)`, got `(.+?)`")
_WHERE = re.compile(r" - at `\$\.?(.*)`$", re.DOTALL)
_HALF_PAIR = re.compile(rb'\\u[dD][89abAB][0-9a-fA-F]{2}"')
_BYTE = re.compile(r"^JSON is malformed: (.*) \(byte (\d+)\)$")

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A record that cannot be decoded, by its index in the batch, with the reason."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedBatch:
    """A decoded batch; all indices are positions in the batch.

    ``columns``: the value columns of the records at ``good``, in order.  ``dead_with_time``: the
    dead records whose only fault is a column that is not a time column; ``times``: their time
    columns.
    """

    good: Indices
    columns: pl.DataFrame
    dead: Sequence[DeadRecord]
    blank: Sequence[int]
    dead_with_time: Indices
    times: pl.DataFrame


class JsonRecords:
    """The decoder of one source."""

    def __init__(self, schema: Mapping[str, pl.DataType], time_columns: Sequence[str] = ()) -> None:
        """Decode the columns of ``schema``; ``time_columns`` of dead records too, if possible."""
        self._schema = dict(schema)
        self._decode = _decoder(self._schema).decode
        self._time_schema = {name: self._schema[name] for name in time_columns}
        self._decode_times = _decoder(self._time_schema).decode if time_columns else None

    def parse(self, values: Sequence[bytes | None]) -> ParsedBatch:
        """Decode a batch of record values."""
        rows = self._all_good(values)
        if rows is not None:
            no_index = np.empty(0, np.intp)
            columns = _columns(rows, self._schema)
            return ParsedBatch(
                np.arange(len(rows)), columns, (), (), no_index, _columns([], self._time_schema)
            )
        return self._one_by_one(values)

    def _all_good(self, values: Sequence[bytes | None]) -> list[Any] | None:
        """Return all records decoded, or None if any is blank or dead."""
        try:
            present = cast(Sequence[bytes], values)  # where one is None, join raises TypeError
            text = b"\n".join(present)
            if not text.isascii():
                text.decode()
            longest = max(map(len, present), default=0)
            if longest > 2 * MAX_NESTING and any(map(_nested_too_deep, present)):
                return None
            return list(map(self._decode, present))
        except (TypeError, UnicodeDecodeError, msgspec.DecodeError, RecursionError):
            return None

    def _one_by_one(self, values: Sequence[bytes | None]) -> ParsedBatch:
        good, rows, dead_with_time, times = [], [], [], []
        dead, blank = [], []
        for index, value in enumerate(values):
            if value is None or not (text := _without_bom(value)).strip():
                blank.append(index)
                continue
            try:
                rows.append(self._record(text))
                good.append(index)
            except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
                dead.append(DeadRecord(index, _reason(error, text)))
                if (time := self._times(error, text)) is not None:
                    dead_with_time.append(index)
                    times.append(time)
        return ParsedBatch(
            np.array(good, np.intp),
            _columns(rows, self._schema),
            dead,
            blank,
            np.array(dead_with_time, np.intp),
            _columns(times, self._time_schema),
        )

    def _record(self, text: bytes) -> Any:
        text.decode()
        if _nested_too_deep(text):
            raise RecursionError
        return self._decode(text)

    def _times(self, error: Exception, text: bytes) -> Any:
        """Return the time columns of a record whose only fault is another column; else None."""
        if self._decode_times is None or not isinstance(error, msgspec.ValidationError):
            return None
        try:
            return self._decode_times(text)
        except msgspec.DecodeError:
            return None


def _columns(rows: list[Any], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            pl.Series(name, _plain(list(map(attrgetter(f"f{n}"), rows)), dtype), dtype)
            for n, (name, dtype) in enumerate(schema.items())
        ]
    )


def _without_bom(value: bytes) -> bytes:
    # Replaced by spaces, so that byte positions in reasons stay those of the record.
    return b"   " + value[3:] if value.startswith(_BOM) else value


def _nested_too_deep(text: bytes) -> bool:
    """Return whether brackets nest deeper than MAX_NESTING; cheap if there are few brackets."""
    if text.count(b"[") + text.count(b"{") <= MAX_NESTING:
        return False
    steps = _STEPS[np.frombuffer(_STRING.sub(b"", text), np.uint8)]
    return bool(steps.cumsum(dtype=np.int32).max(initial=0) > MAX_NESTING)


def _plain(values: list[Any], dtype: pl.DataType) -> list[Any]:
    """Return values with nested structs as dicts, which polars needs; other values unchanged."""
    nested: list[Any] = msgspec.to_builtins(values) if dtype.is_nested() else values
    return nested


def instance(dtype: DataTypeClass | pl.DataType) -> pl.DataType:
    """Return a column type as an instance: polars accepts ``pl.Int64`` for ``pl.Int64()``."""
    return dtype if isinstance(dtype, pl.DataType) else dtype()


def _decoder(schema: Mapping[str, pl.DataType]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_record_type(schema))


def _record_type(schema: Mapping[str, pl.DataType]) -> Any:
    """Return a msgspec struct type with fields f0, f1, ... that are encoded by column name."""
    fields = {f"f{n}": (name, dtype) for n, (name, dtype) in enumerate(schema.items())}
    return msgspec.defstruct(
        "Record",
        [(field, _type(dtype, name) | None, None) for field, (name, dtype) in fields.items()],
        rename={field: name for field, (name, _) in fields.items()},
        gc=False,
    )


_SCALARS: tuple[tuple[type[pl.DataType], Any], ...] = (
    (pl.String, str),
    (pl.Float64, float),
    (pl.Boolean, bool),
    (pl.Int64, Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]),
    (pl.Int32, Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]),
    (pl.Int16, Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]),
    (pl.Int8, Annotated[int, msgspec.Meta(ge=-(2**7), le=2**7 - 1)]),
    (pl.UInt32, Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]),
    (pl.UInt16, Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)]),
    (pl.UInt8, Annotated[int, msgspec.Meta(ge=0, le=2**8 - 1)]),
)


def _type(dtype: pl.DataType, name: str) -> Any:
    """Return the msgspec type that accepts exactly the values of a column type."""
    if isinstance(dtype, pl.List):
        item = _type(instance(dtype.inner), name)
        return list[item | None]  # type: ignore[valid-type]  # a type made at run time
    if isinstance(dtype, pl.Struct):
        return _record_type({field.name: instance(field.dtype) for field in dtype.fields})
    for known, type_ in _SCALARS:
        if dtype == known:
            return type_
    raise PipelineError(f"column {name!r}: type {dtype} cannot be read from a JSON record")


def _reason(error: Exception, text: bytes) -> str:
    """Return a short, stable reason: what is wrong, and where."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 (byte {error.start})"
    if isinstance(error, RecursionError):
        return f"nested deeper than {MAX_NESTING}"
    message = str(error)
    if isinstance(error, msgspec.ValidationError):
        where = _WHERE.search(message)
        return f"column {where[1]}: {_fault(message)}" if where else _fault(message)
    malformed = _BYTE.match(message)
    if malformed is None:
        # The decoder reports half a surrogate pair at the end of a string as truncated, too.
        half = text.rstrip().endswith(b"}") and _HALF_PAIR.search(text)
        fault = "half a surrogate pair" if half else "ends too early"
        return f"not JSON: {fault} (byte {half.start() if half else len(text)})"
    return f"not JSON: {malformed[1]} (byte {malformed[2]})"


def _fault(message: str) -> str:
    wrong = _NO_TYPE.match(message)
    if wrong:
        return f"expected {wrong[1].replace(' | null', '')}, got {wrong[2]}"
    return "number out of range"
