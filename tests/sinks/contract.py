"""What every sink must do, and those that remember positions: suites to inherit.

``places`` makes a place of the kind that is tested, empty each time; ``place`` is one of them.
"""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import SLOW
from tests.examples import fewer
from tests.sinks.feeds import (
    PANES,
    ROWS,
    TOPIC_ID,
    batch,
    batches,
    held,
    order,
    order_row,
    pane,
    row,
    withdrawal,
)
from tidemark.partition import Partition
from tidemark.sinks.sink import OvertakenError, Position, Reload

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

    def test_rows_of_a_stream_are_found_by_their_place(self, place):
        records = [order(7, 0), order(7, 1, item=None, hour=None, size=0), order(8, 0)]
        first, second = batch(records[:2], table=ROWS), batch(records[1:], 2, 2, table=ROWS)
        assert filled(place, first, second, table=ROWS) == [order_row(each) for each in records]

    def test_a_withdrawal_takes_all_discarded_panes_of_its_window(self, place):
        table = replace(PANES, key=(*PANES.window, "revision"))
        records = [pane("ann", 0, 1), pane("ann", 0, 3), withdrawal("ann", 0, 3), pane("ann", 9, 3)]
        first, second = batch(records[:2], table=table), batch(records[2:], 2, 2, table=table)
        assert filled(place, first, second, table=table) == [row(records[3])]

    @settings(
        fewer(4),  # each opens a place of its own
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
