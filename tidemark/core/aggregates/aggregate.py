"""Aggregates: how rows become partials, partials merge, and a merged partial becomes values.

Each row is first a partial of its own, so that rows and partials merge by the same code, in any
order and grouping.  Columns of a partial frame:

1. the columns it is grouped by
2. ROWS: rows folded, Int64
3. per aggregate ``<name>.<part>``.  Limbs (exact_sum.py; of sums and of sums of squares) and
   counters are Int64 and only there if some row needs them: an absent column means zero.  All
   other parts are always there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.aggregates import exact_sum
from tidemark.core.aggregates.runs import Numbers, Runs
from tidemark.core.columns import without_nulls
from tidemark.core.time.segment import ARRIVAL, ROW_COLUMNS, SOURCE
from tidemark.errors import PipelineError

ROWS = "@rows"
"""Int64 partial column: rows folded; becomes a pane's revision."""

Columns = Mapping[str, pl.DataType]
"""Value columns of rows, with their types."""

Mask = npt.NDArray[np.bool_]

LIMB, SQUARE = "limb", "square"
"""Parts that hold limbs, numbered: of a sum, and of a sum of squares."""


class AggregateFunction(Protocol):
    """One aggregate; a frozen value.  Partial columns are named ``<name>.<part>``."""

    def type(self, name: str, columns: Columns, /) -> pl.DataType:
        """Return the type of the values; PipelineError if the columns do not allow it."""

    def parts(self, name: str, rows: pl.DataFrame, /) -> list[pl.Series]:
        """Turn every row into a partial of its own."""

    def merge(self, name: str, present: Sequence[str], /) -> list[pl.Expr]:
        """Merge a group of partials; ``present`` are the partial columns of their frame."""

    def value(self, name: str, partials: pl.DataFrame, columns: Columns, /) -> pl.Series:
        """Return the value of each merged partial."""


@runtime_checkable
class CompactingFunction(Protocol):
    """An aggregate whose parts can be made smaller once they are merged."""

    def compact(self, name: str, partials: pl.DataFrame, /) -> list[pl.Series]:
        """Return the parts that change."""


@runtime_checkable
class RunningFunction(Protocol):
    """An aggregate whose parts of some columns can be merged with all before them in one pass."""

    def running(self, name: str, partials: pl.DataFrame, runs: Runs, /) -> list[pl.Series] | None:
        """Merge each partial with those of its run before it; None for such columns."""


@dataclass(frozen=True)
class Aggregation:
    """The named aggregates of one operator, over rows with the given value columns."""

    aggregates: Mapping[str, AggregateFunction]
    columns: Columns

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise PipelineError("aggregate() has no aggregates: give at least one, as name=count()")
        self.types  # noqa: B018 - raises where a column does not suit its aggregate

    @cached_property
    def types(self) -> dict[str, pl.DataType]:
        """Types of the value columns, in order."""
        return {name: kind.type(name, self.columns) for name, kind in self.aggregates.items()}

    @property
    def by_arrival(self) -> bool:
        """Whether some aggregate needs to know in which order rows arrived: ARRIVAL."""
        return any(getattr(kind, "by_arrival", False) for kind in self.aggregates.values())

    def partials(
        self, rows: pl.DataFrame, by: Sequence[str], others: Sequence[pl.DataFrame] = ()
    ) -> pl.DataFrame:
        """Fold rows into one partial per group of ``by``: ``by``, ROWS, partial columns.

        ``others`` are partials to merge with them.  Groups come in no particular order.
        """
        return self.combine([self._row_partials(rows, by), *others], by)

    def row_partials(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return each row as a partial of its own, in order: ROWS, partial columns."""
        return self._compacted(self._row_partials(rows, ()))

    def _row_partials(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        columns = [rows[column] for column in by]
        columns.append(pl.Series(ROWS, np.ones(rows.height, np.int64)))
        for name, kind in self.aggregates.items():
            columns += kind.parts(name, rows)
        return pl.DataFrame(columns)

    def running(self, partials: pl.DataFrame, group: Numbers) -> pl.DataFrame | None:
        """Merge each partial with those of its group before it, where one pass can do that.

        Groups lie behind each other, numbered from 0.
        """
        if len(self._running) < len(self.aggregates):
            return None
        runs = Runs(group)
        columns = [runs.sums(partials[ROWS])]
        for name, kind in self._running:
            of_kind = kind.running(name, partials, runs)
            if of_kind is None:
                return None
            columns += of_kind
        return self._compacted(pl.DataFrame(columns))

    def combine(self, partials: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """Merge partials (whose partial columns may differ) into one per group of ``by``.

        Takes at least one frame; groups come in no particular order.
        """
        frame = partials[0] if len(partials) == 1 else pl.concat(partials, how="diagonal")
        return self._merged(frame, by)

    def values(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Round once: the value columns of each partial, in the order of ``types``.

        A sum of integers beyond Int64 makes its column Int128, one of decimals beyond 38 digits
        makes it String: exact, whatever the size.
        """
        return pl.DataFrame(
            [
                kind.value(name, partials, self.columns).alias(name)
                for name, kind in self.aggregates.items()
            ]
        )

    def empty(self, by: Columns) -> pl.DataFrame:
        """Return partials of no group."""
        schema = {**ROW_COLUMNS, SOURCE: pl.String(), ARRIVAL: pl.Int64(), **self.columns, **by}
        return self.partials(pl.DataFrame(schema=schema), list(by))

    def with_empty_groups(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Complete partials some of which are of no row and have null for all their parts."""
        whole = pl.concat([self.empty({}), partials], how="diagonal")
        lists = [name for name, dtype in whole.schema.items() if isinstance(dtype, pl.List)]
        none = [pl.col(name).fill_null(pl.lit([], whole.schema[name])) for name in lists]
        return whole.with_columns(pl.col(ROWS).fill_null(0), *none)

    def _merged(self, frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        assert frame.height <= exact_sum.MAX_ROWS, f"{frame.height} rows at once"
        merges = [pl.col(ROWS).sum()]
        present = [column for column in frame.columns if column not in by]
        for name, kind in self.aggregates.items():
            merges += kind.merge(name, present)
        if frame.height <= 1:
            return frame
        return self._compacted(frame.group_by(by).agg(merges))

    def _compacted(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Make parts small again that grew in a merge."""
        for name, part in self._limbed(partials.columns):
            partials = _carried(name, partials, part)
        for name, kind in self._compacting:
            partials = partials.with_columns(kind.compact(name, partials))
        return partials

    def _limbed(self, present: Iterable[str]) -> list[tuple[str, str]]:
        """Return which aggregates have limbs, of a sum or of a sum of squares."""
        found = {}
        for column in present:
            name, _, part = column.rpartition(".")
            kind = part.rstrip("0123456789")
            if kind in (LIMB, SQUARE) and name in self.aggregates:
                found[name, kind] = True
        return list(found)

    @cached_property
    def _running(self) -> list[tuple[str, RunningFunction]]:
        """Aggregates with a running form; asked once, like those that settle."""
        return [
            (name, kind)
            for name, kind in self.aggregates.items()
            if isinstance(kind, RunningFunction)
        ]

    @cached_property
    def _compacting(self) -> list[tuple[str, CompactingFunction]]:
        """Aggregates that settle; asked once, since it takes longer than to merge a few lines."""
        return [
            (name, kind)
            for name, kind in self.aggregates.items()
            if isinstance(kind, CompactingFunction)
        ]


def parts_of(name: str, columns: Iterable[str]) -> list[str]:
    """Return those partial columns that belong to one aggregate."""
    return [column for column in columns if column.rpartition(".")[0] == name]


def additive(name: str, present: Iterable[str]) -> list[pl.Expr]:
    """Merge an aggregate all of whose parts are limbs and counters."""
    return [pl.col(column).sum() for column in parts_of(name, present)]


def running_additive(name: str, partials: pl.DataFrame, runs: Runs) -> list[pl.Series]:
    """Merge each partial of such an aggregate with those of its run before it."""
    return [runs.sums(partials[column]) for column in parts_of(name, partials.columns)]


def limb_columns(name: str, limbs: exact_sum.Limbs, part: str = LIMB) -> list[pl.Series]:
    """Name the limbs of an aggregate as columns of a partial."""
    return [pl.Series(f"{name}.{part}{k}", limb) for k, limb in sorted(limbs.items())]


def limbs_of(name: str, partials: pl.DataFrame, part: str = LIMB) -> exact_sum.Limbs:
    """Return the limbs of an aggregate that a frame of partials has."""
    prefix = f"{name}.{part}"
    return {
        int(column.removeprefix(prefix)): without_nulls(partials[column]).to_numpy()
        for column in parts_of(name, partials.columns)
        if column.startswith(prefix) and column.removeprefix(prefix).isdecimal()
    }


def counter_column(name: str, part: str, marks: Mask) -> list[pl.Series]:
    """Make a counter of the rows that are marked; none where no row is."""
    return [pl.Series(f"{name}.{part}", marks.astype(np.int64))] if marks.any() else []


def counter_of(name: str, part: str, partials: pl.DataFrame) -> exact_sum.Integers:
    """Return a counter of an aggregate: zeros where the frame does not have it."""
    column = f"{name}.{part}"
    if column in partials.columns:
        return without_nulls(partials[column]).to_numpy()
    return np.zeros(partials.height, np.int64)


def _carried(name: str, partials: pl.DataFrame, part: str) -> pl.DataFrame:
    limbs = limbs_of(name, partials, part)
    carried = exact_sum.carried(limbs)
    if carried is limbs:
        return partials
    stale = [column.name for column in limb_columns(name, limbs, part)]
    return partials.drop(stale).with_columns(limb_columns(name, carried, part))
