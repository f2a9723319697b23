"""What databases do with a table whose key or types have changed: a suite to inherit."""

import re
from dataclasses import replace

import polars as pl
import pytest

from tests.sinks.contract import AT, filled, opened
from tests.sinks.feeds import PANES, batch, pane, row
from tidemark.sinks.sink import TablesStoppedError

CITIES = replace(
    PANES,
    columns={"city": pl.String(), **{n: t for n, t in PANES.columns.items() if n != "player"}},
    key=("window_start", "city"),
    window=("window_start", "city"),
    record_key=("city",),
)
OTHER = replace(PANES, topic="game.other", name="other")


def in_city(city: str, start: int, revision: int, pops: int = 1):
    record = pane("", start, revision, pops)
    del record["player"]
    return {"city": city, **record}


def statements(error: TablesStoppedError, name: str = "pops") -> list[str]:
    """Return the statements of the advice, as a user would copy them."""
    _, _, listed = error.reasons[name].partition("within a minute: ")
    return [each for each in re.split(r"(?<=;) ", listed) if each]


class RemakeContract:
    """Of every sink with SQL behind it."""

    def test_a_table_is_made_again_after_its_key_changed_and_changed_back(self, place):
        filled(place, batch([pane("ann", 0, 1)]))
        sink = opened(place, CITIES)
        assert sink.positions([AT]) == {}
        sink.write([batch([in_city("rom", 0, 1, 5)], table=CITIES)])
        sink.close()
        assert [each["city"] for each in place.rows(CITIES)] == ["rom"]
        assert place.run("SELECT city, pops FROM pops_latest") == [("rom", 5)]
        assert filled(place, batch([pane("bob", 0, 1)])) == [row(pane("bob", 0, 1))]
        assert place.run("SELECT player FROM pops_latest") == [("bob",)]

    def test_a_table_is_made_again_after_a_type_changed(self, place):
        filled(place, batch([pane("ann", 0, 1)]))
        other = replace(PANES, columns={**PANES.columns, "pops": pl.String()})
        sink = opened(place, other)
        assert sink.positions([AT]) == {}
        sink.close()
        assert place.rows(other) == []

    def test_columns_that_were_added_and_removed_are_the_sinks_own(self, place):
        wider = replace(PANES, columns={**PANES.columns, "best": pl.Int64()})
        for table in (PANES, wider, PANES, CITIES):
            opened(place, table).close()
        assert [name for (name,) in place.run("SELECT city FROM pops")] == []

    def test_a_table_that_a_user_made_stops_alone(self, place):
        place.run("CREATE TABLE pops (player VARCHAR PRIMARY KEY)")
        sink = place.open()
        with pytest.raises(TablesStoppedError, match="did not make the table as it is") as raised:
            sink.prepare([PANES, OTHER])
        assert list(raised.value.reasons) == ["pops"]
        sink.write([batch([pane("ann", 0, 1)], table=OTHER)])
        sink.close()
        assert place.rows(OTHER) == [row(pane("ann", 0, 1))]
        for statement in statements(raised.value):
            place.run(statement)
        opened(place).close()
        assert place.run("SELECT player FROM pops_old1") == []

    def test_an_own_column_stops_the_table_with_statements_that_work(self, place):
        filled(place, batch([pane("ann", 0, 1)]))
        place.run("ALTER TABLE pops ADD COLUMN note VARCHAR")
        with pytest.raises(TablesStoppedError, match=r"needs \(window_start, city\)") as raised:
            opened(place, CITIES)
        assert place.run("SELECT player FROM pops") == [("ann",)]
        for statement in statements(raised.value):
            place.run(statement)
        opened(place, CITIES).close()
        assert place.run("SELECT player, note FROM pops_old1") == [("ann", None)]
        assert place.run("SELECT city FROM pops_latest") == []

    def test_own_views_and_indexes_stay_or_stop_the_table(self, place):
        filled(place, batch([pane("ann", 0, 1)]))
        place.run("CREATE INDEX own_index ON pops (revision)")
        opened(place, CITIES).close()
        place.run("DROP INDEX own_index")
        place.run("CREATE VIEW own AS SELECT city FROM pops_latest")
        with pytest.raises(TablesStoppedError, match="own") as raised:
            opened(place)
        assert place.run("SELECT * FROM own") == []
        for statement in statements(raised.value):
            place.run(statement)
        opened(place).close()

    def test_a_table_made_by_an_earlier_version_is_made_again(self, place):
        opened(place).close()
        place.run("DROP TABLE tidemark_tables")
        opened(place).close()
        opened(place, CITIES).close()
        assert place.run("SELECT city FROM pops") == []
