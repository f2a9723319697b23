"""Tables of all events in DuckDB, and the comparison of results with what SQL says."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from bench.nexmark.arrival import PARTITION, POSITION
from bench.nexmark.query import DELAY_MS

_SHOWN = 3
_NEVER_MS = -(2**62)


@dataclass(frozen=True)
class Comparison:
    """The number of rows that must come out, and rows that differ, a few of each.

    ``missing``, ``unexpected``: how many rows only SQL has, and how many only the results.
    """

    rows: int
    missing: int
    unexpected: int
    examples: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether the results are the rows that SQL gives."""
        return not self.missing and not self.unexpected

    def __str__(self) -> str:
        """Return the rows that differ, or none."""
        return "; ".join(self.examples) or "none"


class Reference:
    """All events as tables."""

    def __init__(self, events: Mapping[str, pl.DataFrame], folder: Path) -> None:
        """Write ``events``, in order of arrival, to ``folder``, and make tables of them."""
        self._folder = folder
        self._database = duckdb.connect()
        for kind, frame in events.items():
            path = folder / f"{kind}.parquet"
            frame.write_parquet(path)
            self._database.execute(
                f'create table {kind} as select * exclude ("at"), "at" as ts, '
                f'coalesce(max("at") over (partition by {PARTITION} order by {POSITION} '
                f"rows between unbounded preceding and 1 preceding) - {DELAY_MS}, {_NEVER_MS}) "
                f"as w from read_parquet('{path}')"
            )

    def compare(self, wanted: str, given: str, results: pl.DataFrame) -> Comparison:
        """Compare the rows of two queries as multisets.

        ``wanted``: SQL over the tables of events.  ``given``: SQL over the tables ``results`` and
        ``wanted``.
        """
        path = self._folder / "results.parquet"
        results.write_parquet(path)
        run = self._database.execute
        run(f"create or replace temp view results as from read_parquet('{path}')")
        run(f"create or replace temp table wanted as {wanted}")
        run(f"create or replace temp table given as {given}")
        missing = "from wanted except all from given"
        unexpected = "from given except all from wanted"
        examples = [
            *(f"missing {row}" for row in self._rows(f"({missing}) limit {_SHOWN}")),
            *(f"unexpected {row}" for row in self._rows(f"({unexpected}) limit {_SHOWN}")),
        ]
        return Comparison(
            self._count("from wanted"),
            self._count(missing),
            self._count(unexpected),
            tuple(examples),
        )

    def _rows(self, table: str) -> list[Any]:
        return self._database.execute(f"from {table}").fetchall()

    def _count(self, table: str) -> int:
        (count,) = self._database.execute(f"select count(*) from ({table})").fetchone() or (0,)
        return int(count)
