"""What every sink with SQL behind it must do, beside the suites of all sinks: to inherit."""

from base64 import b64decode
from dataclasses import replace
from datetime import timedelta
from math import inf, isnan, nan

import polars as pl
import pytest

from examples.game import game
from tests.sinks.contract import AT, filled, opened
from tests.sinks.feeds import EPOCH, PANES, TOPIC_ID, batch, pane, row, withdrawal
from tidemark.core.rows.schema import INSTANT
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.records import DeadLetter
from tidemark.sinks.rows import decode
from tidemark.sinks.sink import Batch, Move, Position, RefusedError, Reload
from tidemark.sinks.table import tables_of


class DatabaseContract:
    """Of every sink with SQL behind it."""

    def test_a_pane_never_replaces_one_of_a_higher_revision(self, place):
        newer, older = pane("ann", 0, 5, 5), pane("ann", 0, 4, 4)
        assert filled(place, batch([newer]), batch([older], 1, 1)) == [row(newer)]

    def test_a_withdrawal_leaves_a_higher_revision(self, place):
        newer = pane("ann", 0, 5, 5)
        assert filled(place, batch([newer]), batch([withdrawal("ann", 0, 4)], 1, 1)) == [row(newer)]

    def test_views_show_the_newest_window_and_what_is_final(self, place):
        records = [
            pane("ann", 0, 1, 1, final=True),
            pane("ann", 60_000, 1, 2),
            pane("bob", 0, 1, 3),
        ]
        filled(place, batch(records))
        latest = place.run("SELECT player, pops FROM pops_latest ORDER BY player")
        assert latest == [("ann", 2), ("bob", 3)]
        assert place.run("SELECT player, pops FROM pops_final") == [("ann", 1)]

    def test_a_column_added_to_the_pipeline_is_added_to_the_table(self, place):
        filled(place, batch([pane("ann", 0, 1)]))
        wider = replace(PANES, columns={**PANES.columns, "best": pl.Int64()})
        later = batch([pane("bob", 0, 1, best=7)], 1, 1, table=wider)
        assert [each["best"] for each in filled(place, later, table=wider)] == [None, 7]
        assert place.run("SELECT best FROM pops_latest WHERE player = 'bob'") == [(7,)]

    def test_a_table_of_a_user_with_another_type_is_refused(self, place):
        filled(place, batch([pane("ann", 0, 1)]))
        place.run("ALTER TABLE pops ADD COLUMN note VARCHAR")
        other = replace(PANES, columns={**PANES.columns, "pops": pl.String()})
        with pytest.raises(ConfigurationError, match="table pops has column pops with type"):
            opened(place, other)

    def test_a_table_with_another_key_is_refused(self, place):
        place.run("CREATE TABLE pops (player VARCHAR PRIMARY KEY)")
        with pytest.raises(
            ConfigurationError, match=r"has the primary key \(player\), but it needs"
        ):
            opened(place)

    def test_a_key_in_another_order_is_used(self, place):
        other = replace(PANES, key=PANES.key[::-1], window=PANES.window[::-1])
        opened(place, other).close()
        early, late = pane("ann", 0, 1, 1), pane("ann", 0, 2, 5)
        assert filled(place, batch([early]), batch([late], 1, 1)) == [row(late)]

    def test_instants_may_be_null(self, place):
        table = replace(
            PANES,
            columns={**PANES.columns, "record_time": INSTANT},
            members={**PANES.members, "record_time": "timestamp_ms"},
            instants=PANES.instants | {"record_time"},
        )
        records = [pane("ann", 0, 1, timestamp_ms=None), pane("bob", 0, 1, timestamp_ms=1)]
        found = filled(place, batch(records, table=table), table=table)
        assert [each["record_time"] for each in found] == [None, EPOCH + timedelta(milliseconds=1)]

    def test_what_is_no_number_is_kept_where_the_database_can(self, place):
        """Of results written as Avro; JSON has null there.  SQLite has no NaN, and JSON neither."""
        given = batch([pane("ann", 0, 1), pane("bob", 0, 1), pane("eve", 0, 1)])
        odd = pl.Series("mean", [nan, inf, -inf])
        filled(place, replace(given, rows=given.rows.with_columns(odd)))
        found = [n for (n,) in place.run("SELECT mean FROM pops ORDER BY player")]
        assert found[0] is None or isnan(found[0])
        assert found[1:] == [inf, -inf]

    def test_a_table_with_more_columns_is_used(self, place):
        filled(place, batch([pane("ann", 0, 1)]))
        place.run("ALTER TABLE pops ADD COLUMN note VARCHAR")
        sink = opened(place)
        sink.write([batch([pane("bob", 0, 1)], 1, 1)])
        sink.close()
        assert place.run("SELECT player, note FROM pops ORDER BY player") == [
            ("ann", None),
            ("bob", None),
        ]

    def test_an_own_column_that_must_be_filled_is_refused_at_the_start(self, place):  # B3
        filled(place, batch([pane("ann", 0, 1)]))
        place.run("DROP VIEW pops_latest")
        place.run("DROP VIEW pops_final")
        key = 'PRIMARY KEY ("window_start", "player")'
        (kept,) = place.run("SELECT count(*) FROM pops")
        assert kept == (1,)
        columns = ", ".join(
            f'"{name}" {self.type_of(place, name)}{" NOT NULL" * (name in PANES.key)}'
            for name in PANES.columns
        )
        place.run("DROP TABLE pops")
        place.run(f"CREATE TABLE pops ({columns}, note VARCHAR NOT NULL, {key})")
        with pytest.raises(ConfigurationError, match="column note of its own that is NOT NULL"):
            opened(place)
        place.run("DROP TABLE pops")
        place.run(f"CREATE TABLE pops ({columns}, note VARCHAR NOT NULL DEFAULT 'x', {key})")
        sink = opened(place)
        sink.write([batch([pane("bob", 0, 1)], 1, 1)])
        sink.close()
        assert place.run("SELECT player, note FROM pops") == [("bob", "x")]

    def type_of(self, place, name):
        sink = place.open()
        found = sink.columns("pops")[name].type
        sink.close()
        return found

    def test_a_table_that_was_dropped_has_no_positions(self, place):  # A1
        filled(place, batch([pane("ann", 0, 1)]))
        place.run("DROP VIEW pops_latest")
        place.run("DROP VIEW pops_final")
        place.run("DROP TABLE pops")
        sink = opened(place)
        assert sink.positions([AT]) == {}
        sink.close()

    def test_rows_without_positions_are_kept(self, place):  # A1
        filled(place, batch([pane("ann", 0, 1)]))
        place.run("DELETE FROM tidemark_positions")
        sink = opened(place)
        assert sink.positions([AT]) == {}
        sink.reload([Reload(PANES, {AT: Position(7, TOPIC_ID, 5)}, empties=False)])
        assert sink.positions([AT]) == {AT: Position(7, TOPIC_ID, 5)}
        sink.close()
        assert place.rows(PANES) == [row(pane("ann", 0, 1))]

    def test_positions_of_an_earlier_version_are_of_generation_0(self, place):  # A1
        filled(place, batch([pane("ann", 0, 1)]))
        place.run("ALTER TABLE tidemark_positions DROP COLUMN generation")
        sink = opened(place)
        assert sink.positions([AT]) == {AT: Position(1, TOPIC_ID, 0)}
        sink.write([batch([pane("ann", 0, 2)], 1, 1)])
        assert sink.positions([AT]) == {AT: Position(2, TOPIC_ID, 0)}
        sink.close()

    def test_a_view_that_is_not_the_sinks_is_left_alone(self, place, caplog):  # A9
        place.run("CREATE VIEW pops_latest AS SELECT 'mine' AS whose")
        place.run("CREATE TABLE pops_final (whose VARCHAR)")
        filled(place, batch([pane("ann", 0, 1)]))
        assert place.run("SELECT * FROM pops_latest") == [("mine",)]
        assert place.run("SELECT * FROM pops_final") == []
        for name in ("pops_latest", "pops_final"):
            assert f"{name} is not a view of this sink and stays as it is" in caplog.text

    def test_a_view_that_replaced_the_sinks_is_left_alone(self, place, caplog):  # A9
        filled(place, batch([pane("ann", 0, 1)]))
        place.run("DROP VIEW pops_final")
        place.run("CREATE VIEW pops_final AS SELECT player FROM pops WHERE final AND pops > 3")
        wider = replace(PANES, columns={**PANES.columns, "best": pl.Int64()})
        opened(place, wider).close()
        assert place.run("SELECT * FROM pops_final") == []
        assert "pops_final is not a view of this sink" in caplog.text
        assert "pops_latest" not in caplog.text

    def test_views_on_the_sinks_views_stay_through_a_new_column(self, place):  # A9
        filled(place, batch([pane("ann", 0, 1)]))
        for name in ("pops", "pops_latest", "pops_final"):
            place.run(f"CREATE VIEW own_{name} AS SELECT player, pops FROM {name}")
        columns = {"best": pl.Int64(), **PANES.columns}  # in front: views get it at their end
        wider = replace(PANES, columns=columns)
        later = batch([pane("bob", 0, 1, best=7, final=True)], 1, 1, table=wider)
        filled(place, later, table=wider)
        assert place.run("SELECT player FROM own_pops_latest ORDER BY 1") == [("ann",), ("bob",)]
        assert place.run("SELECT player FROM own_pops_final") == [("bob",)]
        (row,) = place.run("SELECT * FROM pops_latest WHERE player = 'bob'")
        assert row[-1] == 7

    def test_columns_and_objects_of_one_name_are_refused(self, place):  # D1
        late = replace(PANES, topic="game.other", name="pops_latest")
        sink = place.open()
        with pytest.raises(ConfigurationError, match="'pops_latest' is also a name of table pops"):
            sink.prepare([PANES, late])
        with pytest.raises(ConfigurationError, match=r"keep names that begin with .*tidemark_"):
            sink.prepare([replace(PANES, name="tidemark_positions")])
        sink.close()

    def test_a_time_that_the_database_cannot_hold_is_refused_by_row(self, place):  # D5
        sink = opened(place)
        bad = pane("bob", 253_402_300_800_000, 1)
        with pytest.raises(RefusedError, match="column window_start: not a time of the") as raised:
            sink.write([batch([pane("ann", 0, 1), bad])])
        assert list(raised.value.rows[AT]) == [1]
        sink.close()

    def test_a_letter_of_any_bytes_is_a_row(self, place):  # B2
        table, *_ = tables_of(game.plan())
        letters = [
            DeadLetter(reason, "sink", "moves", 0, offset, at, key, value)
            for offset, (reason, at, key, value) in enumerate(
                [
                    ("plain", 1, b"ann", b"pop!"),
                    ("a \0 b", 10**15, b"\0key", b"\0\0\0\7ab"),
                    ("bytes", -1, b"\xff", b'{"a": "\\u0000 \\ud800"}'),
                ]
            )
        ]
        keys, values = encode_dead_letters(letters)
        rows = decode(table, values).rows
        sink = opened(place, table)
        at = Partition(table.topic, 0)
        sink.write([Batch(table, at, Move(None, 3, TOPIC_ID), rows, range(3), keys, values)])
        sink.close()
        found = place.run(
            "SELECT reason, key, key_encoding, value, value_encoding, record_time IS NULL "
            "FROM dead_letters ORDER BY raw_offset"
        )
        assert found[0][:5] == ("plain", "ann", None, "pop!", None)
        assert bool(found[1][5])
        key, encoding = found[1][1:3]
        assert (b64decode(key) if encoding else key.encode()) == b"\0key"
        value, encoding = found[1][3:5]
        assert (b64decode(value) if encoding else value.encode()) == b"\0\0\0\7ab"
        assert found[2][3] == '{"a": "\\u0000 \\ud800"}'
