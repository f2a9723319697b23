"""Tables that a sink fills, beside what their topics say by a reading apart from the product."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.kafka.support.stack import Stack, last_panes, wait_until
from tidemark.partition import Partition
from tidemark.runtime.client import topics
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read

Panes = dict[tuple[str, str], int]


def records(stack: Stack, topic: str) -> list[tuple[int, int, bytes | None, Any]]:
    """Return partition, offset, key and value of all records of a topic."""
    count = topics.partition_counts(stack.admin)[topic]
    at = [Partition(topic, number) for number in range(count)]
    begin, end = (offsets(stack.admin, at, which) for which in (EARLIEST, LATEST))
    return [
        (m.partition() or 0, m.offset() or 0, m.key(), json.loads(m.value() or b""))
        for m in read(stack.config, {each: (begin[each], end[each]) for each in at})
    ]


def present(stack: Stack, operator: str) -> list[Any]:
    """Return the panes of an operator's newest generation."""
    topic = f"{stack.name}.{operator}"
    begins = {}
    for _, _, key, value in records(stack, f"{stack.name}.generations"):
        name, _, number = (key or b"").decode().rpartition("/")
        if name == operator:
            begins[int(number)] = value["begins"].get(topic, 0)
    return [
        value
        for number, offset, _, value in records(stack, topic)
        if offset >= begins.get(number, 0)
    ]


def wanted(stack: Stack, operator: str, column: str) -> Panes:
    """Return what the topic of an operator says, by its newest generation."""
    last = last_panes(present(stack, operator), column)
    return {(player, iso(start)): n for (player, start), n in last.items()}


def iso(ms: int) -> str:
    with closing(sqlite3.connect(":memory:")) as db:
        asked = "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', ? / 1000.0, 'unixepoch')"
        return str(db.execute(asked, (ms,)).fetchone()[0])


class Table:
    """A table of a SQLite file that a sink fills."""

    def __init__(self, path: Path, name: str, column: str) -> None:
        self._path, self.name, self.column = path, name, column

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._path)) as db, db:
            return db.execute(statement).fetchall()

    def rows(self) -> Panes:
        try:
            found = self.run(f"SELECT player, window_start, {self.column} FROM {self.name}")
        except sqlite3.OperationalError:
            return {}
        return {(player, start): n for player, start, n in found}

    def await_topic(self, stack: Stack, what: str, *, filled: bool = True) -> None:
        """Wait until the table says what the topic says, and the sink has no lag."""

        def same() -> bool:
            topic = wanted(stack, self.name, self.column)
            return bool(topic) is filled and self.rows() == topic

        wait_until(same, f"{self.name} {what}")


class Keyed:
    """A table of counts by any key; ``path``: of the SQLite file."""

    def __init__(self, path: Path, name: str, key: tuple[str, ...]) -> None:
        self._path, self._name, self._key = path, name, key

    def rows(self) -> dict[tuple[Any, ...], int]:
        """Return the counts by key and start; empty without such a table."""
        columns = ", ".join(map('"{}"'.format, self._key))
        try:
            with closing(sqlite3.connect(self._path)) as db:
                found = db.execute(f'SELECT {columns}, window_start, n FROM "{self._name}"')
                return {tuple(at): n for *at, n in found.fetchall()}
        except sqlite3.OperationalError:
            return {}

    def await_topic(self, stack: Stack) -> None:
        """Wait until the table says what the topic says."""

        def same() -> bool:
            panes = present(stack, self._name)
            topic = {
                (*(pane.get(name) for name in self._key), iso(pane["start"])): pane["n"]
                for pane in panes
            }
            return bool(topic) and self.rows() == topic

        wait_until(same, f"{self._name} by {self._key}")
