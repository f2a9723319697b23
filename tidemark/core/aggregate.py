"""Aggregates: how rows become partials, partials merge, and a merged partial becomes values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

ROWS = "@rows"
"""Int64 partial column: rows folded; becomes a pane's revision."""


class Aggregate(Protocol):
    """One aggregate; a frozen value.  Partial columns are named ``<name>.<part>``."""


@dataclass(frozen=True)
class Aggregation:
    """The named aggregates of one operator, over rows with the given value columns."""

    aggregates: Mapping[str, Aggregate]
    columns: Mapping[str, pl.DataType]

    @property
    def types(self) -> dict[str, pl.DataType]:
        """Types of the value columns, in order."""
        raise NotImplementedError

    def partials(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Fold rows into one partial per group of ``by``: ``by``, ROWS, partial columns."""
        raise NotImplementedError

    def combine(self, partials: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """Merge partials (whose partial columns may differ) into one per group of ``by``."""
        raise NotImplementedError

    def values(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Round once: the value columns of each partial, in the order of ``types``."""
        raise NotImplementedError
