"""What the state of one side of a join needs, and the new rows that it takes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.operators.joins.row_facts import RowFacts
from tidemark.core.operators.joins.time_index import Eras, Run, eras_of
from tidemark.core.state.keyed_lines import Numbers, hashes_of


@dataclass(frozen=True)
class SideSpec:
    """What the rows of one side need.

    Args:
        name: of the frames of changes.
        key: names of the key columns.
        columns: types of the key columns and of the columns that results show.
        reach_ms: how far after the row, in event time, its latest partner may be; None if each
            row has a reach of its own.
        lateness_ms: the allowed lateness.
        tracks: whether the status of a row counts.
        wait_ms: how long after its time a row without a partner is due; None if it gives no result.
        keeps_published: whether a partner may come after the row is published.
        read_ms: how long after its latest partner a row is read, when that partner is due.
    """

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    reach_ms: int | None
    lateness_ms: int
    tracks: bool
    wait_ms: int | None
    keeps_published: bool
    read_ms: int = 0

    @property
    def marks(self) -> str:
        """The name of the frame of rows whose status changed."""
        return f"{self.name}-status"


class NewRows(NamedTuple):
    """Rows of a side.

    ``rows``: the columns of ``SideSpec``.  ``facts``: of each row.  ``eras``: runs of all rows by
    number.  ``keyed``: of those whose key has no null; only they search for partners.
    """

    rows: pl.DataFrame
    facts: RowFacts
    eras: Eras
    keyed: Eras

    @classmethod
    def of(cls, rows: pl.DataFrame, facts: RowFacts, key: Sequence[str]) -> "NewRows":
        """Return rows, in runs by the hash of their keys."""
        keys, at_ms = columns_of(rows, key), facts.at_ms
        eras = eras_by_key(keys, at_ms)
        nulls = [column.is_null().to_numpy() for column in keys if column.null_count()]
        if not nulls:
            return cls(rows, facts, eras, eras)
        some = np.flatnonzero(~np.logical_or.reduce(nulls))
        hashes = hashes_of(keys)[some]
        return cls(rows, facts, eras, eras_of(hashes, at_ms[some], some))

    def runs_from(self, first: int) -> list[Run]:
        """Return the runs of all rows by place; ``first``: that of the first row."""
        return [run.moved(first) for run in self.eras.values()]


def columns_of(rows: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return some columns; faster than ``select``, which waits for a thread."""
    return pl.DataFrame([rows[name] for name in names])


def eras_by_key(keys: pl.DataFrame, at_ms: Numbers) -> Eras:
    """Return runs of rows by number; null equals null."""
    return eras_of(hashes_of(keys), at_ms, np.arange(keys.height))
