"""Rows as JSON texts: objects for the values of messages, arrays for their keys.

See docs/schemas.md.  Whole columns are converted to text, never single values.  Floats read back to
the same bits, and integers have all their digits.  NaN and infinity, which JSON lacks, are null.
Objects have the bytes of polars' ``json_encode``, and arrays those of msgspec.
"""

import msgspec
import polars as pl

from tidemark.core.rows.byte_text import bytes_as_text
from tidemark.core.rows.time_text import times_as_text
from tidemark.serde.binary_column import BinaryColumn

_BEFORE = '{"v":'  # the value of an object's only member

_json = msgspec.json.Encoder().encode


def json_objects(rows: pl.DataFrame) -> BinaryColumn:
    """Return each row as a JSON object, in UTF-8; bytes are base64 text."""
    return BinaryColumn.of_texts(_objects(times_as_text(bytes_as_text(rows))))


def json_arrays(rows: pl.DataFrame) -> BinaryColumn:
    """Return each row as a JSON array, in UTF-8."""
    columns = enumerate(times_as_text(rows))
    texts = pl.DataFrame([_member(column).alias(str(at)).rechunk() for at, column in columns])
    members = pl.concat_str(pl.all().fill_null("null"), separator=",")
    arrays = texts.select(pl.concat_str(pl.lit("["), members, pl.lit("]")))
    return BinaryColumn.of_texts(arrays.to_series())


def _member(column: pl.Series) -> pl.Series:
    """Return the JSON text of each value in an array; null may stay null."""
    dtype = column.dtype
    if dtype.is_integer() or dtype == pl.Boolean:
        return column.cast(pl.String)
    if dtype == pl.String:
        objects = _objects(pl.DataFrame([column.alias("v")]))
        return objects.str.strip_prefix(_BEFORE).str.strip_suffix("}")
    texts = [_json(value).decode() for value in column.to_list()]
    return pl.Series(texts, dtype=pl.String)


def _objects(rows: pl.DataFrame) -> pl.Series:
    return rows.select(pl.struct(pl.all()).struct.json_encode()).to_series()
