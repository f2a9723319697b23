"""What every sink must do, those that remember positions, and databases: suites to inherit.

``places`` makes a place of the kind that is tested, empty each time; ``place`` is one of them.
"""

from dataclasses import replace
from datetime import timedelta
from math import inf, isnan, nan

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import SLOW
from tests.sinks.feeds import EPOCH, PANES, TOPIC_ID, batch, batches, held, pane, row, withdrawal
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.sinks.sink import OvertakenError, Position
from tidemark.sinks.table import INSTANT

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
        sink.write([batch([pane("ann", 0, 2)], 1, 1).without_rows()])
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

    def test_a_table_with_another_type_is_refused(self, place):
        filled(place, batch([pane("ann", 0, 1)]))
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
