"""The sides of a join: which columns of an input a join keeps, and their names in results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

Kind = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class Side:
    """One input of a join.

    Args:
        name: of the input in ``Body.process``.
        columns: of the input, with types, including the key.
        shown: the name in a result, by column of the side; without the key.  Only these columns
            and the key are in state.
    """

    name: str
    columns: Mapping[str, pl.DataType]
    shown: Mapping[str, str]

    @property
    def results(self) -> dict[str, pl.DataType]:
        """The columns of results that come from this side, with types."""
        return {name: self.columns[column] for column, name in self.shown.items()}
