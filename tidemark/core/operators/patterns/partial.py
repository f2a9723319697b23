"""Partial matches of a key: the rows that they have, as numbers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.aggregates.lists import unflattened
from tidemark.core.operators.operator import Numbers

STEP_BITS = 6
"""A row of a match is one number: its place, shifted by this, and the number of its step."""

HEAD = 4
"""The numbers before the rows of a packed partial match: time, closed targets, stage, and size."""

_STEP = (1 << STEP_BITS) - 1

Refs = tuple[int, ...]
"""The rows of a match.  Matches sort by the places of their rows, then by the steps."""


def ref_of(place: int, step: int) -> int:
    """Return the number of a row in a match."""
    return place << STEP_BITS | step


def place_of(ref: int) -> int:
    """Return the place of a row."""
    return ref >> STEP_BITS


def step_of(ref: int) -> int:
    """Return the number of the step that a row has."""
    return ref & _STEP


class Partial(NamedTuple):
    """A partial match.

    ``first_ms``: the time of its first row.  ``closed``: bits of the targets that it cannot reach
    any more, and of ``Automaton.complete``.  ``stage``: its place in ``Automaton.stages``.
    """

    first_ms: int
    closed: int
    stage: int
    refs: Refs


def packed(partials: Sequence[Sequence[Partial]]) -> pl.Series:
    """Return the partial matches of each key as a list of numbers.

    Of each partial match: the ``HEAD``, then its rows.
    """
    numbers, sizes = list[int](), list[int]()
    for some in partials:
        before = len(numbers)
        for each in some:
            numbers.extend((each.first_ms, each.closed, each.stage, len(each.refs), *each.refs))
        sizes.append(len(numbers) - before)
    key = np.repeat(np.arange(len(sizes)), np.array(sizes, np.int64))
    return unflattened(key, pl.Series(numbers, dtype=pl.Int64), len(sizes))


def numbers_of(lists: pl.Series) -> tuple[Numbers, Numbers]:
    """Return the count of numbers of each key's partial matches, and the numbers of all keys.

    It goes through Arrow: for lists, polars runs a query and waits for its thread pool.
    """
    array = lists.to_arrow(compat_level=pl.CompatLevel.oldest())
    bounds, numbers = pl.Series(array.offsets).to_numpy(), pl.Series(array.flatten()).to_numpy()
    return np.diff(bounds), numbers


def unpacked(lists: pl.Series) -> list[list[Partial]]:
    """Return the partial matches of each key that ``packed`` packed."""
    counts, every = numbers_of(lists)
    numbers, found, at = every.tolist(), [], 0
    for stop in np.cumsum(counts).tolist():
        some = []
        while at < stop:
            first_ms, closed, stage, size = numbers[at : at + HEAD]
            at += HEAD + size
            some.append(Partial(first_ms, closed, stage, tuple(numbers[at - size : at])))
        found.append(some)
    return found
