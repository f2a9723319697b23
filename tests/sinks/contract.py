"""What every sink must do, those that remember positions, and databases: suites to inherit.

``places`` makes a place of the kind that is tested, empty each time; ``place`` is one of them.
"""

from base64 import b64decode
from dataclasses import replace
from datetime import timedelta
from math import inf, isnan, nan

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples.game import game
from tests.conftest import SLOW
from tests.sinks.feeds import EPOCH, PANES, TOPIC_ID, batch, batches, held, pane, row, withdrawal
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.records import DeadLetter
from tidemark.sinks.rows import decode
from tidemark.sinks.sink import Batch, Move, OvertakenError, Position, RefusedError, Reload
from tidemark.sinks.table import INSTANT, tables_of

AT = Partition(PANES.topic, 0)
OTHER = Partition(PANES.topic, 1)


def opened(place, table=PANES):
    sink = place.open()
    try:
        sink.prepare([table])
    except BaseException:
        sink.close()
        raise
    return sink


def filled(place, *given_batches, table=PANES):
    """Write batches and return what a reader then finds."""
    sink = opened(place, table)
    for each in given_batches:
        sink.write([each])
    sink.close()
    return place.rows(table)


PLAYERS = st.sampled_from(["ann", "bob"])
STARTS = st.sampled_from([0, 60_000])
HISTORIES = st.lists(st.tuples(PLAYERS, STARTS, st.booleans()), min_size=1, max_size=12)


class SinkContract:
    """Of every sink."""

    def test_every_value_comes_back(self, place):
        full = pane("ann", 1_774_738_680_000, 3, pops=2**63 - 1, names=[], mean=5e-324)
        empty = pane("bob", -60_000, 1, pops=None, mean=None, euros=None, names=None, top=None)
        odd = pane(
            "o\"\\'\n\t,é😀", 0, 1, names=['"', "\\N", "", None], mean=1.7976931348623157e308
        )
        records = [full, empty, odd]
        assert filled(place, batch(records)) == held(records)

    def test_the_last_pane_of_a_window_stays(self, place):
        records = [pane("ann", 0, 1, 1), pane("ann", 0, 2, 2), pane("bob", 0, 1, 7)]
        assert filled(place, batch(records)) == held(records)

    def test_a_later_batch_replaces_the_pane_of_an_earlier_one(self, place):
        early, late = pane("ann", 0, 1, 1), pane("ann", 0, 2, 5)
        assert filled(place, batch([early]), batch([late], 1, 1)) == [row(late)]

    def test_a_withdrawn_pane_is_gone_and_its_successor_there(self, place):
        records = [pane("ann", 0, 1), withdrawal("ann", 0, 1), pane("ann", -1_000, 2)]
        assert filled(place, *batches(records, [1])) == held(records)

    def test_discarded_panes_are_kept_side_by_side(self, place):
        table = replace(PANES, key=(*PANES.window, "revision"))
        records = [pane("ann", 0, 1, 1), pane("ann", 0, 3, 2), pane("ann", 0, 3, 2)]
        found = filled(place, batch(records, table=table), table=table)
        assert [(each["revision"], each["pops"]) for each in found] == [(1, 1), (3, 2)]

    def test_a_withdrawal_takes_all_discarded_panes_of_its_window(self, place):
        table = replace(PANES, key=(*PANES.window, "revision"))
        records = [pane("ann", 0, 1), pane("ann", 0, 3), withdrawal("ann", 0, 3), pane("ann", 9, 3)]
        first, second = batch(records[:2], table=table), batch(records[2:], 2, 2, table=table)
        assert filled(place, first, second, table=table) == [row(records[3])]

    @settings(
        max_examples=settings().max_examples // 4,  # each opens a place of its own
        suppress_health_check=[HealthCheck.function_scoped_fixture, *SLOW],
    )
    @given(history=HISTORIES, cuts=st.lists(st.integers(1, 11), max_size=4))
    def test_any_history_in_any_cut_leaves_what_it_means(self, places, history, cuts):
        records = [
            withdrawal(player, start, n + 1) if gone else pane(player, start, n + 1, n)
            for n, (player, start, gone) in enumerate(history)
        ]
        assert filled(places(), *batches(records, cuts)) == held(records)


class PositionContract:
    """Of every sink that remembers how far it got: those deliver exactly once."""

    def test_positions_are_those_of_the_last_write(self, place):
        sink = opened(place)
        assert sink.positions([AT, OTHER]) == {}
        sink.write([batch([pane("ann", 0, 1)], 5), batch([pane("bob", 0, 1)], number=1)])
        sink.close()
        again = opened(place)
        assert again.positions([AT, OTHER]) == {
            AT: Position(6, TOPIC_ID),
            OTHER: Position(1, TOPIC_ID),
        }
        assert again.positions([AT]) == {AT: Position(6, TOPIC_ID)}
        again.close()

    def test_a_batch_without_rows_moves_its_partition(self, place):
        sink = opened(place)
        sink.write([batch([pane("ann", 0, 1)])])
        sink.write([batch([pane("ann", 0, 2)], 1, 1).without([0])])
        assert sink.positions([AT]) == {AT: Position(2, TOPIC_ID)}
        sink.close()
        assert place.rows(PANES) == [row(pane("ann", 0, 1))]

    @pytest.mark.parametrize("begin", [None, 0, 2])
    def test_a_process_that_was_overtaken_writes_nothing(self, place, begin):
        sink = opened(place)
        sink.write([batch([pane("ann", 0, 1)])])
        with pytest.raises(OvertakenError, match=r"game\.pops/0"):
            sink.write([batch([pane("ann", 0, 9), pane("eve", 0, 1)], begin or 0, begin)])
        assert sink.positions([AT]) == {AT: Position(1, TOPIC_ID)}
        sink.close()
        assert place.rows(PANES) == [row(pane("ann", 0, 1))]


class ReloadContract:
    """Of every sink that keeps positions: after a reload it holds what its topic says."""

    NEW = Position(7, TOPIC_ID, 5)

    def reloaded(self, sink, *, empties=True, table=PANES, to=NEW):
        at = {Partition(table.topic, n): to for n in range(table.partitions)}
        sink.reload([Reload(table, at, empties)])

    def test_a_reload_deletes_the_rows_and_sets_all_positions(self, place):  # A1
        table = replace(PANES, partitions=2)
        sink = opened(place, table)
        sink.write([batch([pane("ann", 0, 1_015)]), batch([pane("bob", 0, 9)], number=1)])
        self.reloaded(sink, table=table)
        assert sink.positions([AT, OTHER]) == {AT: self.NEW, OTHER: self.NEW}
        sink.close()
        sink = opened(place, table)
        assert sink.positions([AT, OTHER]) == {AT: self.NEW, OTHER: self.NEW}
        sink.write([batch([pane("ann", 0, 501)], 7, 7)])
        assert sink.positions([AT]) == {AT: Position(8, TOPIC_ID, 5)}
        sink.close()
        assert place.rows(PANES) == [row(pane("ann", 0, 501))]

    def test_a_reload_without_new_records_leaves_no_rows(self, place):  # A1
        sink = opened(place)
        sink.write([batch([pane("ann", 0, 1), pane("bob", 0, 1)])])
        self.reloaded(sink)
        sink.close()
        assert place.rows(PANES) == []

    def test_a_process_that_did_not_know_of_a_reload_writes_nothing(self, place):  # A1
        sink = opened(place)
        sink.write([batch([pane("ann", 0, 1)])])
        self.reloaded(sink)
        with pytest.raises(OvertakenError, match=r"game\.pops/0"):
            sink.write([batch([pane("eve", 0, 1)], 1, 1)])
        sink.close()
        assert place.rows(PANES) == []

    def test_the_second_of_two_processes_that_reload_changes_nothing(self, place):  # A1
        sink = opened(place)
        sink.write([batch([pane("ann", 0, 1)])])
        self.reloaded(sink)
        sink.write([batch([pane("bob", 0, 1)], 7, 7)])
        self.reloaded(sink)
        assert sink.positions([AT]) == {AT: Position(8, TOPIC_ID, 5)}
        sink.close()
        assert place.rows(PANES) == [row(pane("bob", 0, 1))]

    def test_a_topic_that_was_created_again_is_loaded_from_its_start(self, place):  # A1
        sink = opened(place)
        sink.write([batch([pane("ann", 0, 1)])])
        self.reloaded(sink, to=Position(0, "BBBB"))
        again = batch([pane("bob", 0, 1)], 0, 0)
        sink.write([replace(again, move=again.move._replace(topic_id="BBBB"))])
        assert sink.positions([AT]) == {AT: Position(1, "BBBB")}
        sink.close()
        assert place.rows(PANES) == [row(pane("bob", 0, 1))]


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
