"""What only some databases do: a file that fills up, comments, a file that is no database."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from tests.sinks.contract import AT, opened
from tests.sinks.feeds import PANES, TOPIC_ID, batch, held, pane
from tests.sinks.places import duck_place, sqlite_place
from tidemark.errors import ConfigurationError
from tidemark.sinks.databases.sqlite import SqliteSink
from tidemark.sinks.sink import Position, UnavailableError

MANY = [pane(f"player{n}", 0, 1) for n in range(2_000)]


def test_a_disk_that_is_full_is_a_reason_to_try_again_and_nothing_of_the_batch_stays(tmp_path):
    place = sqlite_place(tmp_path)
    sink = opened(place)
    sink.write([batch(MANY[:1])])
    sink.run("PRAGMA max_page_count = 12")
    later = batch(MANY[1:], 1, 1)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="database or disk is full"):
            sink.write([later])
        assert sink.positions([AT]) == {AT: Position(1, TOPIC_ID)}
    sink.run("PRAGMA max_page_count = 10000")
    sink.write([later])
    sink.close()
    assert place.rows(PANES) == held(MANY)


def test_a_file_that_is_no_database_stops_the_start(tmp_path):
    (tmp_path / "results.db").write_text("no database at all" * 100)
    with pytest.raises(
        ConfigurationError, match=r"SQLite file .*results\.db: file is not a database"
    ):
        SqliteSink(tmp_path / "results.db")


def test_a_file_is_read_while_the_sink_has_it_open(tmp_path):
    place = sqlite_place(tmp_path)
    sink = opened(place)
    sink.write([batch(MANY[:2])])
    with closing(sqlite3.connect(f"file:{tmp_path / 'results.db'}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM pops").fetchone() == (2,)
        sink.write([batch(MANY[2:5], 2, 2)])
        assert reader.execute("SELECT count(*) FROM pops").fetchone() == (2,)
    sink.close()
    assert place.rows(PANES) == held(MANY[:5])


def test_sqlite_says_in_its_schema_what_tables_and_columns_are(tmp_path):
    place = sqlite_place(tmp_path)
    table = replace(PANES, comment="Panes */ DROP TABLE pops; /* of 'game'")
    opened(place, table).close()
    assert place.run is not None
    ((schema,),) = place.run("SELECT sql FROM sqlite_master WHERE name = 'pops'")
    assert "/* Panes * / DROP TABLE pops; /* of 'game' */" in schema
    assert '"final" INTEGER /* No later row can change the pane */' in schema


def test_duckdb_says_what_tables_and_columns_are(tmp_path):
    place = duck_place(tmp_path)
    opened(place).close()
    assert place.run is not None
    assert place.run("SELECT comment FROM duckdb_tables() WHERE table_name = 'pops'") == [
        (PANES.comment,)
    ]
    columns = "SELECT comment FROM duckdb_columns() WHERE table_name = 'pops' AND comment NOT NULL"
    assert len(place.run(columns)) == 5
