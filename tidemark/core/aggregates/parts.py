"""Partial columns that add up: limbs and counters.  See aggregate.py."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.aggregates import exact_sum
from tidemark.core.aggregates.runs import Runs
from tidemark.core.columns import without_nulls

Mask = npt.NDArray[np.bool_]

LIMB, SQUARE = "limb", "square"
"""Prefixes of the parts that hold limbs, numbered: of a sum, and of a sum of squares."""


def parts_of(name: str, columns: Iterable[str]) -> list[str]:
    """Return the partial columns that belong to the aggregate ``name``."""
    return [column for column in columns if column.rpartition(".")[0] == name]


def additive(name: str, present: Iterable[str]) -> list[pl.Expr]:
    """Return the merge of an aggregate whose parts are all limbs and counters: sums."""
    return [pl.col(column).sum() for column in parts_of(name, present)]


def running_additive(name: str, partials: pl.DataFrame, runs: Runs) -> list[pl.Series]:
    """Return running sums of the parts of such an aggregate, by run."""
    return [runs.sums(partials[column]) for column in parts_of(name, partials.columns)]


def limb_columns(name: str, limbs: exact_sum.Limbs, part: str = LIMB) -> list[pl.Series]:
    """Return the limbs of an aggregate as partial columns, Int64."""
    return [pl.Series(f"{name}.{part}{k}", limb) for k, limb in sorted(limbs.items())]


def limbs_of(name: str, partials: pl.DataFrame, part: str = LIMB) -> exact_sum.Limbs:
    """Return the limbs of an aggregate in a frame of partials; the inverse of ``limb_columns``."""
    prefix = f"{name}.{part}"
    return {
        int(column.removeprefix(prefix)): without_nulls(partials[column]).to_numpy()
        for column in parts_of(name, partials.columns)
        if column.startswith(prefix) and column.removeprefix(prefix).isdecimal()
    }


def counter_column(name: str, part: str, marks: Mask) -> list[pl.Series]:
    """Return a counter of the marked rows as a partial column; no column if no row is marked."""
    return [pl.Series(f"{name}.{part}", marks.astype(np.int64))] if marks.any() else []


def counter_of(name: str, part: str, partials: pl.DataFrame) -> exact_sum.Integers:
    """Return a counter of an aggregate; zeros if the frame does not have the column."""
    column = f"{name}.{part}"
    if column in partials.columns:
        return without_nulls(partials[column]).to_numpy()
    return np.zeros(partials.height, np.int64)


def carried(name: str, partials: pl.DataFrame, part: str) -> pl.DataFrame:
    """Return partials whose limbs of one kind, LIMB or SQUARE, are small again."""
    limbs = limbs_of(name, partials, part)
    small = exact_sum.carried(limbs)
    if small is limbs:
        return partials
    stale = [column.name for column in limb_columns(name, limbs, part)]
    return partials.drop(stale).with_columns(limb_columns(name, small, part))
