"""Facts of the rows of a join: what it knows of each besides its columns."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tidemark.core.operators.joins.identity import Ids
from tidemark.core.state.keyed_lines import Mask, Numbers
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
        numbers = {EVENT_TIME: self.at_ms, REACH: self.reach_ms}
        found = {name: pl.Series(name, values.copy()) for name, values in numbers.items()}
        found[HIGH] = pl.Series(HIGH, self.ids.high.copy())
        found[LOW] = pl.Series(LOW, self.ids.low.copy())
        found[STATUS] = pl.Series(STATUS, self.status.copy())
        return [found[name] for name in names]
