"""Tables that users have already, as a place of results: a suite to inherit."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.sinks.contract import AT, opened
from tests.sinks.feeds import PANES, TOPIC_ID, batch, pane, withdrawal
from tests.sinks.letters import Letters
from tidemark.sinks.delivery import Delivery
from tidemark.sinks.mapping import mapped
from tidemark.sinks.sink import Position, Reload, TablesStoppedError
from tidemark.sinks.table import Table

DAY_MS = 86_400_000
MAPPING = """
[pops]
table = "daily"
columns = { window_start = "day", player = "who", pops = "n", mean = "price", top = "best" }
"""
CREATE = """
    CREATE TABLE daily (
        day DATE NOT NULL, who VARCHAR(5) NOT NULL, n SMALLINT, price NUMERIC(6,2), best JSON,
        note VARCHAR DEFAULT 'none', UNIQUE (who, day)
    )
"""
Rows = list[tuple[Any, ...]]


def table_of(path, text: str = MAPPING) -> Table:
    file = path / "mapping.toml"
    file.write_text(text)
    (table,) = mapped([PANES], str(file))
    return table


def delivered(place, table: Table, records, begin: int | None = None) -> Letters:
    """Deliver records; return the letters of those that were refused."""
    sink, letters = opened(place, table), Letters()
    Delivery(sink, letters).deliver([batch(records, begin or 0, begin, table=table)])
    sink.close()
    return letters


class ExistingContract:
    """Of every sink with SQL behind it."""

    def test_rows_go_to_a_table_with_other_names_types_and_columns(self, place, tmp_path):
        place.run(CREATE)
        table = table_of(tmp_path)
        records = [pane("ann", DAY_MS, 1, 7, mean=0.1), pane("bob", DAY_MS, 1, mean=None)]
        assert delivered(place, table, records).written == []
        assert delivered(place, table, [pane("ann", DAY_MS, 2, 9, mean=1234.5)], 2).written == []
        rows = place.run("SELECT day, who, n, price, note FROM daily ORDER BY who")
        assert [
            (_date(day), who, n, _decimal(price), note) for day, who, n, price, note in rows
        ] == [
            (date(1970, 1, 2), "ann", 9, Decimal("1234.5"), "none"),
            (date(1970, 1, 2), "bob", 1, None, "none"),
        ]

    def test_values_that_a_type_cannot_hold_are_refused_in_bulk_and_never_cut(
        self, place, tmp_path
    ):
        place.run(CREATE)
        records = [
            pane("ann", 0, 1, 7, mean=0.1),
            pane("annabel", 0, 1),
            pane("bob", 1, 1),
            pane("cid", 0, 1, 40_000),
            pane("dan", 0, 1, mean=0.125),
            pane("eve", 0, 1, mean=10_000.0),
            pane("fay", 0, 1, mean=float("1e-9")),
            pane("gus", 0, 1, -32_768, mean=-9_999.99),
        ]
        letters = delivered(place, table_of(tmp_path), records)
        reasons = {
            1: "who: a text of more than 5 characters",
            2: "day: not the begin of a day in UTC",
            3: "n: not an integer from -32768 to 32767",
            4: "price: not a number with at most 4 digits before the point and 2 behind",
            5: "price: not a number",
            6: "price: not a number",
        }
        names = ["ann", "gus"]
        if "5" not in self.type_in(place, "daily", "who"):  # DuckDB has no VARCHAR(5)
            del reasons[1]
            names.insert(1, "annabel")
        assert letters.writes == 1
        assert [letter.offset for letter in letters.written] == list(reasons)
        for letter in letters.written:
            assert reasons[letter.offset] in letter.reason
        assert [who for (who,) in place.run("SELECT who FROM daily ORDER BY who")] == names

    def type_in(self, place, table: str, column: str) -> str:
        sink = place.open()
        found: str = sink.columns(table)[column].type
        sink.close()
        return found

    def test_a_withdrawal_and_a_reload_delete_rows_of_the_table(self, place, tmp_path):
        place.run(CREATE)
        table = table_of(tmp_path)
        delivered(place, table, [pane("ann", 0, 1), pane("bob", 0, 1), withdrawal("ann", 0, 2)])
        assert place.run("SELECT who FROM daily") == [("bob",)]
        sink = opened(place, table)
        sink.reload([Reload(table, {AT: Position(7, TOPIC_ID, 5)}, empties=True)])
        sink.close()
        assert place.run("SELECT who FROM daily") == []
        # A pane of a lower revision follows after a reset; the table has no revisions.
        delivered(place, table, [pane("ann", 0, 1)], 7)
        assert place.run("SELECT who FROM daily") == [("ann",)]

    def test_rows_of_others_stay_or_stop_the_table(self, place, tmp_path):
        place.run(CREATE)
        place.run("INSERT INTO daily (day, who) VALUES ('1970-01-01', 'zoe')")
        with pytest.raises(TablesStoppedError, match="has rows that this sink has not written"):
            opened(place, table_of(tmp_path))
        table = table_of(tmp_path, f"{MAPPING}\nkeeps_rows = true")
        delivered(place, table, [pane("ann", 0, 1)])
        sink = opened(place, table)
        sink.reload([Reload(table, {AT: Position(7, TOPIC_ID, 5)}, empties=True)])
        sink.close()
        assert place.run("SELECT who FROM daily ORDER BY who") == [("ann",), ("zoe",)]

    @pytest.mark.parametrize(
        ("create", "says"),
        [
            ("", "table .* does not exist: create it"),
            (CREATE.replace("note VARCHAR DEFAULT 'none'", "note VARCHAR NOT NULL"), "column note"),
            (
                CREATE.replace("UNIQUE (who, day)", "UNIQUE (who)"),
                r"no unique constraint .*day, who",
            ),
            (
                CREATE.replace("n SMALLINT", "m SMALLINT"),
                "has no column n: add it, or leave it out",
            ),
            (CREATE.replace("n SMALLINT", "n DATE"), "column n with type .*, but it needs .*Int64"),
            (CREATE.replace("VARCHAR(5)", "INTEGER"), "column who with type .* every String"),
            (CREATE.replace("price NUMERIC(6,2)", "price INTEGER"), "column price with type"),
        ],
    )
    def test_a_table_that_cannot_hold_the_rows_stops(self, place, tmp_path, create, says):
        if create:
            place.run(create)
        with pytest.raises(TablesStoppedError, match=says):
            opened(place, table_of(tmp_path))

    def test_a_table_of_the_same_names_needs_no_mapping(self, place):
        columns = [name for name in PANES.columns if name not in ("player", "pops", "euros")]
        sink = opened(place)
        types = {name: sink.columns("pops")[name].type for name in columns}
        sink.close()
        for view in ("pops_latest", "pops_final"):
            place.run(f"DROP VIEW {view}")
        place.run("DROP TABLE pops")
        others = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
        place.run(
            f"CREATE TABLE pops (player VARCHAR(5) NOT NULL, pops SMALLINT, euros NUMERIC(5,2), "
            f"{others}, UNIQUE (player, window_start))"
        )
        letters = delivered(place, PANES, [pane("ann", 0, 1), pane("bob", 0, 1, euros="1000.00")])
        assert [letter.offset for letter in letters.written] == [1]
        ((player, euros),) = place.run("SELECT player, euros FROM pops")
        assert (player, _decimal(euros)) == ("ann", Decimal("-3.5"))


def _date(value: Any) -> date:
    return date.fromisoformat(value) if isinstance(value, str) else value


def _decimal(value: Any) -> Decimal | None:
    return None if value is None else Decimal(str(value))
