"""count_distinct(approximate=True): a HyperLogLog sketch of 4,096 registers.

A value's hash (``stable_hash``) chooses a register by its first 12 bits; a register keeps the
highest *rank*, the place of the first set bit among the other 52.  Registers merge by maximum, so
the result does not depend on order, repeats or cuts.

The estimate is Ertl's improved raw estimator (O. Ertl, "New cardinality estimation algorithms for
HyperLogLog sketches", 2017): no bias and no tables from one value to 2**63.  Its standard error is
1.04 / sqrt(4096), about 1.6 %.

Part: ``registers``, a list of the registers that are set, each as index * 64 + rank, UInt32.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.aggregates.aggregate import Columns
from tidemark.core.aggregates.exact_sum import Floats, Integers, Words
from tidemark.core.aggregates.lists import (
    CountDistinct,
    concatenated,
    flattened,
    single_item_lists,
    unflattened,
)
from tidemark.core.aggregates.stable_hash import stable_hashes

_INDEX_BITS = 12
_REGISTERS = 2**_INDEX_BITS
_REST_BITS = 64 - _INDEX_BITS
_RANKS = 64
"""A power of two above the highest rank, 53."""

_REGISTER_BITS = _INDEX_BITS + 6

_HALF_OF_LOG2_E = 0.7213475204444817
_STEPS = 64
"""Terms computed of the two series, which converge long before."""

_BLOCK = 4_096
"""Number of sketches estimated at once."""


@dataclass(frozen=True)
class ApproximateCountDistinct(CountDistinct):
    """An estimate of the number of distinct values that are not null."""

    def __str__(self) -> str:
        return f'count_distinct("{self.column}", approximate=True)'

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Return the register that each value sets, as a list of one; null gives an empty list."""
        values = rows[self.column]
        known = values.is_not_null()
        registers = np.zeros(values.len(), np.uint32)
        registers[known.to_numpy()] = _registers(stable_hashes(values.drop_nulls()))
        column = pl.Series(registers)
        if not known.all():
            column = pl.select(pl.when(known).then(column)).to_series()
        return [single_item_lists(column, f"{name}.registers")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Concatenate the lists."""
        return [concatenated(f"{name}.registers")]

    def compact(self, name: str, partials: pl.DataFrame) -> list[pl.Series]:
        """Return the registers with the highest rank of each index."""
        lists = partials[f"{name}.registers"]
        index, flat = flattened(lists)
        ordered = np.sort(index << _REGISTER_BITS | flat.to_numpy().astype(np.int64))
        highest = ordered[_last_of_each(ordered // _RANKS)]
        registers = pl.Series(lists.name, (highest & (2**_REGISTER_BITS - 1)).astype(np.uint32))
        return [unflattened(highest >> _REGISTER_BITS, registers, lists.len())]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Return the estimates, Int64."""
        lists = partials[f"{name}.registers"]
        blocks = [_estimates(lists[at : at + _BLOCK]) for at in range(0, len(lists), _BLOCK)]
        return pl.Series(np.concatenate([np.zeros(0, np.int64), *blocks]))


def _last_of_each(ordered: Integers) -> npt.NDArray[np.bool_]:
    """Return a mask of the last number in each run of equal numbers."""
    last = np.ones(ordered.size, np.bool_)
    last[:-1] = ordered[1:] != ordered[:-1]
    return last


def _registers(hashes: Words) -> npt.NDArray[np.uint32]:
    rest = hashes & np.uint64(2**_REST_BITS - 1)
    # Up to 53 bits a double is exact, and so is its exponent: the length in bits.
    length = np.frexp(rest.astype(np.float64))[1]
    rank = (_REST_BITS + 1 - length).astype(np.uint64)
    registers = (hashes >> np.uint64(_REST_BITS)) * np.uint64(_RANKS) + rank
    return registers.astype(np.uint32)


def _estimates(lists: pl.Series) -> Integers:
    """Return Ertl's estimate of each sketch, from the number of registers with each rank."""
    index, registers = flattened(lists)
    place = index * _RANKS + registers.to_numpy() % _RANKS
    ranks = np.bincount(place, minlength=len(lists) * _RANKS).reshape(-1, _RANKS).T
    chosen = lists.list.len().to_numpy()
    total = _REGISTERS * _full(ranks[_REST_BITS + 1] / _REGISTERS)
    for rank in range(_REST_BITS, 0, -1):
        total = (total + ranks[rank]) * 0.5
    empty = (_REGISTERS - chosen) / _REGISTERS
    total = total + _REGISTERS * _empty(np.where(chosen > 0, empty, 0.0))
    with np.errstate(divide="ignore"):
        estimate = np.rint(_HALF_OF_LOG2_E * _REGISTERS * _REGISTERS / total)
    return np.where(chosen > 0, np.minimum(estimate, 2.0**62), 0.0).astype(np.int64)


def _empty(share: Floats) -> Floats:
    """Return Ertl's sigma of ``share``, the share of registers that are empty."""
    total, weight = share, 1.0
    for _ in range(_STEPS):
        share = share * share
        total = total + share * weight
        weight *= 2.0
    return total


def _full(share: Floats) -> Floats:
    """Return Ertl's tau of ``1 - share``; ``share``: of the registers with the highest rank."""
    share = 1.0 - share
    total, weight = 1.0 - share, 1.0
    for _ in range(_STEPS):
        share = np.sqrt(share)
        weight *= 0.5
        total = total - (1.0 - share) ** 2 * weight
    return np.where(share > 0, total / 3.0, 0.0)
