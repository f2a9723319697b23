"""Rows as JSON texts: objects for the values of messages, arrays for their keys.

See docs/schemas.md.  Floats read back to the same bits, and integers have all their digits.  NaN
and infinity, which JSON lacks, are null.  Objects have the bytes of polars' ``json_encode``, and
arrays those of msgspec.  The library of ``tidemark.native`` makes the same bytes in less time.
"""

from collections.abc import Sequence

import msgspec
import polars as pl

from tidemark.core.rows.byte_text import bytes_as_text
from tidemark.core.rows.time_text import times_as_text
from tidemark.native import library
from tidemark.native.json_rows import Values, json_rows
from tidemark.serde.binary_column import BinaryColumn

_BEYOND_INT64 = (pl.UInt64, pl.Int128, pl.UInt128)
_BEFORE = '{"v":'  # the value of an object's only member

_json = msgspec.json.Encoder().encode


def json_objects(rows: pl.DataFrame) -> BinaryColumn[bytes]:
    """Return each row as a JSON object, in UTF-8; bytes are base64 text."""
    rows = times_as_text(bytes_as_text(rows))
    if library is None:
        return BinaryColumn.of_texts(_objects(rows))
    names = [_json(name).decode() for name in rows.columns]
    pieces = [f"{',' if at else '{'}{name}:" for at, name in enumerate(names)]
    return _rows([*pieces, "}"], [_of_object(column) for column in rows])


def json_arrays(rows: pl.DataFrame) -> BinaryColumn[bytes]:
    """Return each row as a JSON array, in UTF-8."""
    columns = [_of_array(column) for column in times_as_text(rows)]
    return _rows(["[", *[","] * (len(columns) - 1), "]"], columns)


def _rows(pieces: Sequence[str], columns: Sequence[Values]) -> BinaryColumn[bytes]:
    """Return rows of JSON: values between pieces, one more than columns."""
    if library is not None:
        return BinaryColumn(json_rows(library, pieces, columns))
    texts = pl.DataFrame(
        [_text(values).alias(str(at)).rechunk() for at, values in enumerate(columns)]
    )
    parts = [pl.lit(pieces[0])]
    for name, piece in zip(texts.columns, pieces[1:], strict=True):
        parts += [pl.col(name).fill_null("null"), pl.lit(piece)]
    return BinaryColumn.of_texts(texts.select(pl.concat_str(parts)).to_series())


def _of_object(column: pl.Series) -> Values:
    if column.dtype.is_float():
        return Values("json", _finite(column))
    return _plain(column) or Values("json", _encoded(column))


def _of_array(column: pl.Series) -> Values:
    plain = _plain(column)
    if plain is not None:
        return plain
    texts = [_json(value).decode() for value in column.to_list()]
    return Values("json", pl.Series(texts, dtype=pl.String))


def _plain(column: pl.Series) -> Values | None:
    """Return a column of texts, integers or booleans, which all encoders write alike."""
    dtype = column.dtype
    if dtype == pl.String:
        return Values("text", column)
    if dtype.is_integer() and dtype not in _BEYOND_INT64:
        return Values("number", column.cast(pl.Int64))
    if dtype.is_integer() or dtype == pl.Boolean:
        return Values("json", column.cast(pl.String))
    return None


def _finite(floats: pl.Series) -> pl.Series:
    """Return floats as polars' ``json_encode`` writes them; NaN and infinity are null."""
    texts, are_finite = floats.cast(pl.String), floats.is_finite()
    return texts if are_finite.all() else texts.set(~are_finite, None)


def _text(values: Values) -> pl.Series:
    """Return the JSON text of each value; null may stay null."""
    if values.kind == "text":
        return _encoded(values.column)
    return values.column.cast(pl.String)


def _encoded(column: pl.Series) -> pl.Series:
    """Return the JSON text of each value, by polars."""
    texts = _objects(pl.DataFrame([column.alias("v")]))
    return texts.str.strip_prefix(_BEFORE).str.strip_suffix("}")


def _objects(rows: pl.DataFrame) -> pl.Series:
    return rows.select(pl.struct(pl.all()).struct.json_encode()).to_series()
