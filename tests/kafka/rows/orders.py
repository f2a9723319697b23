"""Orders of the pipeline ``asis``, and the rows that they are: judged without the product."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.kafka.support.stack import Stack, wait_until
from tests.kafka.support.tables import iso, present

PARTITIONS = 3
Rows = dict[int, list[tuple[int, str, int, int]]]
"""Offset, user, amount and event time of rows in order, by raw partition."""


def orders(begin: int, end: int) -> Iterator[tuple[int, None, bytes]]:
    """Yield records; each eleventh is far behind, and each thirteenth is not JSON."""
    for n in range(begin, end):
        order = {"at": at(n), "user": f"u{n % 5}", "amount": n % 4}
        yield n % PARTITIONS, None, b"?" if n % 13 == 0 else json.dumps(order).encode()


def at(n: int) -> int:
    return max(0, n * 100 - (n % 11 == 0) * 40_000)


def expected(count: int, least: int) -> Rows:
    """Return the rows of the first ``count`` orders."""
    rows: Rows = {partition: [] for partition in range(PARTITIONS)}
    for n in range(count):
        if n % 4 >= least and n % 13:
            rows[n % PARTITIONS].append((n // PARTITIONS, f"u{n % 5}", n % 4, at(n)))
    return rows


def by_partition(records: list[dict[str, Any]]) -> Rows:
    """Return published rows in the order of their topic, by raw partition."""
    rows: Rows = {partition: [] for partition in range(PARTITIONS)}
    for row in records:
        found = (row["_offset"], row["user"], row["amount"], row["_event_time_ms"])
        rows[row["_partition"]].append(found)
        assert row["_sub_row"] == 0
    return rows


def await_rows(stack: Stack, count: int, least: int) -> None:
    """Wait until the output ``large`` has published the rows, each once and in order."""
    wanted = expected(count, least)
    wait_until(lambda: by_partition(present(stack, "large")) == wanted, f"rows of {stack.name}")


def await_table(path: Path, count: int, least: int) -> None:
    """Wait until the table ``large`` of a SQLite file has exactly the rows."""
    wanted = sorted(
        (partition, offset, user, amount, iso(time_ms))
        for partition, rows in expected(count, least).items()
        for offset, user, amount, time_ms in rows
    )
    columns = "_partition, _offset, user, amount, _event_time"

    def same() -> bool:
        try:
            with closing(sqlite3.connect(path)) as database:
                found = database.execute(f"SELECT {columns} FROM large ORDER BY 1, 2").fetchall()
        except sqlite3.OperationalError:  # there is no table yet
            return False
        return found == wanted

    wait_until(same, f"table of {path}")
