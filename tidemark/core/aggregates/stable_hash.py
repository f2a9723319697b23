"""A 64-bit hash of values that never changes, because sketches in stored state depend on it.

Canonical bytes are hashed: integers, times and Booleans as 64-bit integers, floats as the bits of
a double (one zero, one NaN), decimals as their 128 bits, texts as UTF-8 in words of eight bytes,
padded with zeros.  Each word is mixed with its position, the mixed words are added (wrapping, so
order does not matter), and the total is mixed with the length.  The hash is not keyed: it does not
resist values that are chosen to collide.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.aggregates.exact_sum import Words, decimal_halves

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_WORD = 8


def stable_hashes(values: pl.Series) -> Words:
    """Return the hashes of values without nulls: numbers, texts, Booleans or times."""
    if values.dtype == pl.String:
        return _of_texts(values)
    if values.dtype.is_decimal():
        low, high = decimal_halves(values)
        return mixed(_words(low) ^ mixed(_words(high) + _STEP))
    if values.dtype.is_float():
        doubles = values.to_numpy().astype(np.float64) + 0.0
        doubles[np.isnan(doubles)] = np.nan
        return mixed(_words(doubles))
    if values.dtype in (pl.Int128, pl.UInt128):
        return _of_texts(values.cast(pl.String))
    whole = values.to_physical()
    whole = whole if whole.dtype == pl.UInt64 else whole.cast(pl.Int64)
    return mixed(_words(whole.to_numpy()))


def mixed(words: Words) -> Words:
    """Return words mixed one to one: each input bit changes about half the output bits.

    The finalizer is that of SplitMix64.
    """
    found = words >> np.uint64(30)
    found ^= words
    found *= _FIRST
    shifted = found >> np.uint64(27)
    found ^= shifted
    found *= _SECOND
    np.right_shift(found, np.uint64(31), out=shifted)
    found ^= shifted
    return found


def _words(numbers: npt.NDArray[np.generic]) -> Words:
    return np.ascontiguousarray(numbers).view(np.uint64)


def _of_texts(texts: pl.Series) -> Words:
    array = texts.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, bounds, data = array.buffers()
    ends = np.frombuffer(bounds, np.int64)[array.offset : array.offset + len(array) + 1]
    length = np.diff(ends)
    count = -(-length // _WORD)
    text = np.repeat(np.arange(len(array)), count)
    first = np.cumsum(count) - count
    nth = np.arange(text.size) - first[text]
    words = _read(data, ends[:-1][text] + nth * _WORD)
    unused = np.maximum((nth + 1) * _WORD - length[text], 0).astype(np.uint64) * np.uint64(8)
    words = mixed((words << unused >> unused) + (nth + 1).astype(np.uint64) * _STEP)
    totals = np.zeros(len(array), np.uint64)
    some = count > 0
    if some.any():
        totals[some] = np.add.reduceat(words, first[some])
    return mixed(totals ^ length.astype(np.uint64) * _STEP)


def _read(data: object, at: npt.NDArray[np.int64]) -> Words:
    """Return the words of eight bytes at byte positions; bytes beyond the end are zero."""
    text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)  # type: ignore[call-overload]
    padded = np.concatenate((text, np.zeros(_WORD, np.uint8)))
    every = np.ndarray((padded.size - _WORD + 1,), np.dtype("<u8"), padded.data, 0, (1,))
    return every[at].astype(np.uint64, copy=False)
