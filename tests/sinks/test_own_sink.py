"""The sink that docs/sinks.md shows does what every sink must."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.sinks.contract import PositionContract, ReloadContract, SinkContract, opened
from tests.sinks.feeds import batch, pane
from tests.sinks.places import Place, plain
from tidemark.errors import ConfigurationError
from tidemark.sinks.open import open_sink
from tidemark.sinks.sink import UnavailableError

PAGE = (Path(__file__).parents[2] / "docs" / "sinks.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def places(tmp_path, monkeypatch) -> Callable[[], Place]:
    """Make a database of its own, each time, for the module that the page shows."""
    (tmp_path / "documents.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    numbers = count()

    def made() -> Place:
        path = tmp_path / f"{next(numbers)}.db"

        def sink():
            monkeypatch.setenv("DOCUMENTS", str(path))
            return open_sink("documents:Documents")

        def rows(table):
            with closing(sqlite3.connect(path)) as db:
                found = db.execute("SELECT json FROM documents WHERE of = ?", (table.name,))
                return plain([json.loads(text) for (text,) in found], table)

        return Place(sink, rows)

    return made


class TestOwnSink(SinkContract, PositionContract, ReloadContract):
    def test_its_class_has_fifty_lines(self):
        lines = CODE[CODE.index("class ") :].splitlines()
        assert len([line for line in lines if line.strip()]) <= 50

    def test_a_database_that_is_locked_is_tried_again(self, place, monkeypatch):
        sink = opened(place)
        sink.db.execute("PRAGMA busy_timeout = 0")
        path = sink.db.execute("PRAGMA database_list").fetchone()[2]
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(UnavailableError, match="documents: database is locked"):
                sink.write([batch([pane("ann", 0, 1)])])
            other.execute("COMMIT")
        sink.write([batch([pane("ann", 0, 1)])])
        sink.close()


def test_a_class_that_does_not_exist_is_a_mistake(places):
    with pytest.raises(ConfigurationError, match="documents has no such class"):
        open_sink("documents:Nothing")
