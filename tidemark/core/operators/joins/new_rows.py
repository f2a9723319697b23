"""What the state of one side of a join needs, the new rows that it takes, and facts of rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.operators.identity import Ids
from tidemark.core.operators.joins.time_index import Run
from tidemark.core.state.keyed_lines import Mask, Numbers, hashes_of
from tidemark.core.time.segment import EVENT_TIME

WAITING, MATCHED, PUBLISHED = 0, 1, 2
"""Status of a row: without a partner; with one; published as a row without a partner."""

HIGH, LOW = "@id_high", "@id_low"
REACH = "@reach"
STATUS = "@status"
"""Columns of frames of changes, besides EVENT_TIME; changelogs store the names."""

ROW_BYTES = 33
"""Bytes of the facts of a row."""

Statuses = npt.NDArray[np.uint8]


class RowFacts(NamedTuple):
    """Facts of rows, as columns: the event time, the identity, REACH and STATUS of each row."""

    at_ms: Numbers
    ids: Ids
    reach_ms: Numbers
    status: Statuses

    @classmethod
    def of(cls, at_ms: Numbers, ids: Ids, reach_ms: Numbers | int) -> "RowFacts":
        """Return the facts of rows that wait for a partner."""
        reaches = np.full(at_ms.size, reach_ms)
        return cls(at_ms, ids, reaches, np.full(at_ms.size, WAITING, np.uint8))

    @classmethod
    def empty(cls, count: int) -> "RowFacts":
        """Return columns for the facts of rows, to be filled."""
        ids = Ids(np.empty(count, np.uint64), np.empty(count, np.uint64))
        return cls(
            np.empty(count, np.int64), ids, np.empty(count, np.int64), np.empty(count, np.uint8)
        )

    def at(self, index: Numbers | Mask | slice) -> "RowFacts":
        """Return the facts of the rows at ``index``; a slice is not copied."""
        return RowFacts(
            self.at_ms[index], self.ids.at(index), self.reach_ms[index], self.status[index]
        )

    def fill(self, first: int, facts: "RowFacts") -> None:
        """Set the facts of the rows from ``first`` on."""
        some = slice(first, first + facts.at_ms.size)
        self.at_ms[some], self.reach_ms[some] = facts.at_ms, facts.reach_ms
        self.ids.high[some], self.ids.low[some] = facts.ids
        self.status[some] = facts.status

    def columns(self, names: Sequence[str]) -> list[pl.Series]:
        """Return some facts as columns of a frame of changes; they are copies."""
        found: dict[str, npt.NDArray[np.generic]] = {
            EVENT_TIME: self.at_ms,
            HIGH: self.ids.high,
            LOW: self.ids.low,
            REACH: self.reach_ms,
            STATUS: self.status,
        }
        return [pl.Series(name, found[name].copy()) for name in names]


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

    ``rows``: the columns of ``SideSpec``.  ``facts``: of each row.  ``run``: of all rows by
    number.  ``keyed``: of those whose key has no null; only they search for partners.
    """

    rows: pl.DataFrame
    facts: RowFacts
    run: Run
    keyed: Run

    @classmethod
    def of(cls, rows: pl.DataFrame, facts: RowFacts, key: Sequence[str]) -> "NewRows":
        """Return rows, with runs by the hash of their keys."""
        keys, at_ms = columns_of(rows, key), facts.at_ms
        run = run_by_key(keys, at_ms)
        nulls = [column.is_null().to_numpy() for column in keys if column.null_count()]
        if not nulls:
            return cls(rows, facts, run, run)
        some = np.flatnonzero(~np.logical_or.reduce(nulls))
        return cls(rows, facts, run, Run.of(hashes_of(keys)[some], at_ms[some], some))


def columns_of(rows: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return some columns; faster than ``select``, which waits for a thread."""
    return pl.DataFrame([rows[name] for name in names])


def run_by_key(keys: pl.DataFrame, at_ms: Numbers) -> Run:
    """Return a run of rows by number; null equals null."""
    return Run.of(hashes_of(keys), at_ms, np.arange(keys.height))
