"""Identities of rows and of results: 128 bits, as two columns of 64, that never change.

An identity is a hash of raw places (source, offset, sub_row), so it is the same in each recording
of the raw topics.  A result of an operator has a hash of its own identity in place of its offset.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tidemark.core.aggregates.exact_sum import Words
from tidemark.core.aggregates.stable_hash import mixed, stable_hashes
from tidemark.core.state.keyed_lines import Numbers
from tidemark.core.time.segment import OFFSET, SOURCE, SUB_ROW

_STEP, _LOW = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)

_DIGITS = 32
"""Hexadecimal digits of an identity."""


class Ids(NamedTuple):
    """Identities: the high and the low 64 bits of each."""

    high: Words
    low: Words

    def at(self, index: Numbers | npt.NDArray[np.bool_] | slice) -> "Ids":
        """Return the identities at positions ``index``."""
        return Ids(self.high[index], self.low[index])


def ids_of_rows(rows: pl.DataFrame) -> Ids:
    """Return the identities of rows, from SOURCE, OFFSET and SUB_ROW."""
    source, sub_row = _hashes_of_sources(rows[SOURCE]), rows[SUB_ROW].to_numpy().astype(np.uint64)
    if not sub_row.any():
        sub_row = np.zeros(1, np.uint64)  # mixed once for all rows
    offset = rows[OFFSET].to_numpy().view(np.uint64)
    high = mixed(mixed(source ^ mixed(offset)) + sub_row * _STEP)
    low = mixed(mixed(mixed(source + _LOW) + offset * _STEP) ^ mixed(sub_row + _LOW))
    return Ids(high, low)


def _hashes_of_sources(sources: pl.Series) -> Words:
    """Return the hash of each source, or of all rows one hash if they have the same source."""
    if sources.len() and (sources == sources[0]).all():
        return _hash_of_source(sources[0])
    runs = sources.rle().struct.unnest()
    return stable_hashes(runs["value"]).repeat(runs["len"].to_numpy())


@lru_cache(maxsize=1_024)
def _hash_of_source(source: str) -> Words:
    """Return the hash of one source; its cost does not depend on the rows."""
    return stable_hashes(pl.Series([source]))


def ids_in_windows(ids: Ids, start_ms: Numbers) -> Ids:
    """Return the identities of rows as members of windows, given the starts of these."""
    start = start_ms.view(np.uint64)
    return Ids(
        mixed(mixed(ids.high ^ _LOW) + mixed(start + _STEP)),
        mixed(mixed(ids.low ^ _STEP) + mixed(start ^ _LOW)),
    )


def ids_of_pairs(left: Ids | None, right: Ids | None) -> Ids:
    """Return the identities of pairs, in which the order of the sides counts.

    A result without a row of one side has None there.
    """
    one, other = left or _zeros(right), right or _zeros(left)
    high = mixed(mixed(one.high + _STEP) ^ other.high)
    low = mixed(mixed(one.low + _LOW) ^ other.low)
    return Ids(high, low)


def _zeros(like: Ids | None) -> Ids:
    assert like is not None, "a result has a row of at least one side"
    nothing = np.zeros(like.high.size, np.uint64)
    return Ids(nothing, nothing)


def hex_texts(name: str, ids: Ids) -> pl.Series:
    """Return identities as a column of texts of 32 hexadecimal digits."""
    size = ids.high.size
    text = np.stack([ids.high, ids.low], axis=1).astype(">u8").tobytes().hex().encode()
    bounds = np.arange(0, _DIGITS * size + 1, _DIGITS)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(text)]
    held = pa.Array.from_buffers(pa.large_string(), size, buffers)
    return pl.Series(name, held)
