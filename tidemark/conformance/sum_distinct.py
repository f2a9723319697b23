"""An aggregate that Tidemark lacks and a case asks for, written as users write their own."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tidemark.core.aggregate import Columns
from tidemark.core.aggregate_kinds import OfColumn


@dataclass(frozen=True)
class SumDistinct(OfColumn):
    """The sum of the different integers of a column; null where there is none."""

    @property
    def word(self) -> str:
        """What complaints call it."""
        return "sum_distinct"

    def type(self, name: str, columns: Columns) -> pl.DataType:
        """Int64."""
        if not self.input_type(name, columns).is_integer():
            raise self.unsuitable(name, columns, "integers")
        return pl.Int64()

    def parts(self, name: str, rows: pl.DataFrame) -> list[pl.Series]:
        """Make a list of each value."""
        lists = rows.select(pl.concat_list(self.column).list.drop_nulls())
        return [lists.to_series().alias(f"{name}.values")]

    def merge(self, name: str, _present: Sequence[str]) -> list[pl.Expr]:
        """Keep each value once."""
        return [pl.col(f"{name}.values").explode(empty_as_null=False, keep_nulls=False).unique()]

    def value(self, name: str, partials: pl.DataFrame, _columns: Columns) -> pl.Series:
        """Add them up."""
        sums = [sum(values) if values else None for values in partials[f"{name}.values"].to_list()]
        return pl.Series(name, sums, pl.Int64)
