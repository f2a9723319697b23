"""What the engines of patterns take and leave: rows of keys, and the partial matches of keys."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Mask, Numbers
from tidemark.core.operators.patterns.automaton import Automaton


class KeyRows(NamedTuple):
    """Rows that partial matches may take, or that end some, in the order of places.

    ``key``: the number of the row's key.  ``bits``: of the conditions that it fulfils.
    """

    key: Numbers
    place: Numbers
    at_ms: Numbers
    bits: Numbers

    def where(self, at: Mask | Numbers) -> "KeyRows":
        """Return the rows that a mask marks, or those at positions, in their order."""
        return KeyRows(*(column[at] for column in self))


class KeyPartials(NamedTuple):
    """The partial matches of some keys, as ``partial.packed`` packs them.

    ``key``: numbers of keys.  ``first_ms``: the time of the first row of the oldest one.
    """

    key: Numbers
    first_ms: Numbers
    lists: pl.Series

    @classmethod
    def joined(cls, parts: Sequence["KeyPartials"]) -> "KeyPartials":
        """Return the partial matches of all parts, in the order of keys."""
        key, first_ms = (np.concatenate([part[at] for part in parts]) for at in range(2))
        order = np.argsort(key)
        lists = pl.concat([part.lists for part in parts])
        return cls(key[order], first_ms[order], lists[pl.Series(order)])

    def where(self, mask: Mask) -> "KeyPartials":
        """Return the partial matches of the keys that a mask marks."""
        return KeyPartials(self.key[mask], self.first_ms[mask], self.lists.filter(pl.Series(mask)))


def used_rows(automaton: Automaton, bits: Numbers, key_of: Numbers, is_open: Mask) -> Numbers:
    """Return the positions of rows that a partial match may take, or that end one.

    These are the rows of a key with partial matches, and of other keys from a row on that fulfils
    the condition of a first step.  Of rows one after the other that fulfil no condition, the first
    is enough.
    """
    row = np.arange(bits.size)
    starting = row[bits & automaton.starting != 0][::-1]
    first = np.full(is_open.size, bits.size)
    first[key_of[starting]] = starting
    used: Numbers = row[is_open[key_of] | (row >= first[key_of])]
    if not automaton.pattern.counts_every_row:
        return used
    by_key = used[np.argsort(key_of[used], kind="stable")]
    fits = bits[by_key] != 0
    begins = np.append(True, key_of[by_key][1:] != key_of[by_key][:-1])[: by_key.size]
    tells = fits | begins | np.append(True, fits[:-1])[: by_key.size]
    return np.sort(by_key[tells])
