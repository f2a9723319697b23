"""From a row's key to its log partition: key -> bytes -> murmur2 -> key group -> partition.

The bytes of a key are stable, so a key has the same partition in every version and language:

* one text column: its UTF-8 bytes, as a Java or console producer would key the record; of a time,
  its text (``2026-01-02T03:04:05.678Z``);
* one column of another type: the value's JSON text (``42``);
* several columns: their JSON array (``["a",42]``), without white space;
* null: empty bytes in a key of one column; ``null`` in an array.

-0.0 is the same key as 0.0.  The hash is murmur2 as Kafka's Java producer computes it.  Its
positive part modulo KEY_GROUPS is the key group.  The key group modulo the number of partitions is
the partition.  If that number divides KEY_GROUPS, a Java producer takes the same partition.

A stream without a key keeps its partitions: the number of the raw partition takes the place of the
hash.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.core.rows.time_text import times_as_text
from tidemark.core.time.segment import SOURCE

KEY_GROUPS = 128
"""Key groups, the unit in which keyed state is counted, moved and replayed; never changes."""

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_ESCAPED = r'["\\\x00-\x1f]'  # characters that JSON does not take as they are
_LONG_KEY = 256  # bytes; longer keys are rare and are hashed one by one

Hashes = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


def murmur2(key: bytes) -> int:
    """Return Kafka's murmur2 hash of one key as a signed 32-bit integer, as Java has it."""
    h = _SEED ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def murmur2_all(keys: Sequence[bytes]) -> Hashes:
    """Return the hashes of many keys, UInt32: the same bits as ``murmur2``."""
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    hashes = np.empty(len(keys), np.uint32)
    short = np.flatnonzero(lengths <= _LONG_KEY)
    hashes[short] = _hash_words([keys[index] for index in short.tolist()], lengths[short])
    for index in np.flatnonzero(lengths > _LONG_KEY).tolist():
        hashes[index] = murmur2(keys[index]) & _MASK
    return hashes


def _hash_words(keys: Sequence[bytes], lengths: npt.NDArray[np.int64]) -> Hashes:
    """Return hashes, computed word by word across all keys that have that word."""
    count = int(lengths.max(initial=0)) // 4 + 1
    padded = np.array(keys, f"S{count * 4}")  # NumPy pads with zero bytes, as murmur2 needs
    words = padded.view(np.uint32).reshape(len(keys), count).astype(np.uint32, copy=False)
    m, r24 = np.uint32(_M), np.uint32(24)
    h = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    for index in range(count):
        k = words[:, index] * m
        k = (k ^ k >> r24) * m
        h = np.where(index < lengths // 4, h * m ^ k, h)
    rest = words[np.arange(len(keys)), lengths // 4]
    h = np.where(lengths % 4 > 0, (h ^ rest) * m, h)
    h = (h ^ h >> np.uint32(13)) * m
    hashed: Hashes = h ^ h >> np.uint32(15)
    return hashed


def key_groups(rows: pl.DataFrame, key: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return the key group of each row, UInt8; each distinct key is hashed once."""
    unique, index = distinct_keys(rows, key)
    groups = (murmur2_all(key_bytes(unique, key)) & np.uint32(0x7FFFFFFF)) % KEY_GROUPS
    of_rows: npt.NDArray[np.uint8] = groups.astype(np.uint8)[index]
    return of_rows


def row_groups(
    rows: pl.DataFrame, key: Sequence[str], sources: Sequence[str]
) -> npt.NDArray[np.uint8]:
    """Return the key group of each row, UInt8; without a key, that of its raw partition.

    ``sources``: the raw partitions, as ``topic/partition``, that SOURCE of the rows numbers.
    """
    if key:
        return key_groups(rows, key)
    groups = [int(source.rpartition("/")[2]) % KEY_GROUPS for source in sources]
    of_rows: npt.NDArray[np.uint8] = np.array(groups, np.uint8)[rows[SOURCE].to_numpy()]
    return of_rows


def partitions_of(
    rows: pl.DataFrame, key: Sequence[str], partitions: int, sources: Sequence[str] = ()
) -> npt.NDArray[np.int16]:
    """Return the log partition of each row, Int16; ``sources``: see ``row_groups``."""
    of_rows: npt.NDArray[np.int16] = row_groups(rows, key, sources).astype(np.int16) % partitions
    return of_rows


def partitions_of_source(
    rows: pl.DataFrame, key: Sequence[str], partitions: int, source: str
) -> npt.NDArray[np.int16]:
    """Return the log partition of each row, Int16; all rows are of one ``source``."""
    return partitions_of(rows.with_columns(pl.lit(0).alias(SOURCE)), key, partitions, [source])


def key_bytes(rows: pl.DataFrame, key: Sequence[str]) -> list[bytes]:
    """Return the bytes of each row's key, the input of the hash."""
    rows = rows.select(key)
    if any(dtype.is_temporal() or dtype.is_nested() for dtype in rows.dtypes):
        rows = times_as_text(rows).with_columns(pl.col(pl.Date).dt.to_string("iso"))
    if len(key) == 1:
        only = rows[key[0]]
        texts = (only if only.dtype == pl.String else _json_texts(only)).fill_null("")
    else:
        columns = [_json_texts(column).fill_null("null") for column in rows]
        array = pl.concat_str(pl.lit("["), pl.concat_str(columns, separator=","), pl.lit("]"))
        texts = pl.select(array).to_series()
    of_rows: list[bytes] = texts.cast(pl.Binary).to_list()
    return of_rows


def _json_texts(column: pl.Series) -> pl.Series:
    """Return the JSON text of each value; null stays null."""
    if column.dtype == pl.Boolean or column.dtype.is_integer():
        return column.cast(pl.String)
    if column.dtype == pl.String and not column.str.contains(_ESCAPED).any():
        return '"' + column + '"'
    values: list[Any] = column.to_list()
    if column.dtype.is_float():
        values = [0.0 if value == 0.0 else value for value in values]
    texts = [None if value is None else _json(value) for value in values]
    return pl.Series(column.name, texts, pl.String)


def distinct_keys(rows: pl.DataFrame, key: Sequence[str]) -> tuple[pl.DataFrame, Places]:
    """Return the distinct keys, and for each row the position of its key among them."""
    index = np.zeros(rows.height, np.int64)
    for name in key:
        codes, size = _encoded(rows[name].to_arrow())
        index = index * size + codes
        if name is not key[0]:
            # Renumber without gaps, so that products stay small for any number of columns.
            index = _encoded(pl.Series(index).to_arrow())[0].astype(np.int64)
    first = np.zeros(int(index.max(initial=-1)) + 1, np.int64)
    first[index[::-1]] = np.arange(rows.height)[::-1]
    places = pl.Series(first.astype(np.uint32))
    return pl.DataFrame([rows[name][places] for name in key]), index


def _encoded(values: pa.Array) -> tuple[npt.NDArray[np.int32], int]:
    """Return each value's position in a dictionary, and the size of the dictionary.

    The positions go through polars: Arrow's own conversion to NumPy imports pandas if it is
    installed, which takes half a second.
    """
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    return pl.Series(encoded.indices).to_numpy(), len(encoded.dictionary)
