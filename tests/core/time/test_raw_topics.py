"""Raw topics by name and by pattern, and the clock of an operator that reads them."""

import pytest

from tidemark.core.time.clock import ClockTable
from tidemark.core.time.raw_topics import covers, is_pattern, pattern_name, value_of
from tidemark.core.time.segment import NEVER_MS, Segment, SourceMark

ORDERS = pattern_name(r"orders\..*")


@pytest.mark.parametrize(
    ("names", "topic", "covered"),
    [
        (["orders.eu"], "orders.eu", True),
        (["orders.eu"], "ordersXeu", False),  # a plain name is no pattern
        ([ORDERS], "orders.eu", True),
        ([ORDERS], "orders", False),
        ([ORDERS], "my.orders.eu", False),  # the whole name must match
        (["clicks", ORDERS], "orders.us", True),
        ([], "orders.eu", False),
    ],
)
def test_a_pattern_matches_whole_names(names, topic, covered):
    assert covers(names, topic) is covered


def test_a_topic_has_the_value_of_its_name_or_pattern():
    values = {"clicks": 1, ORDERS: 2}
    assert [value_of(values, topic) for topic in ("clicks", "orders.eu", "orders")] == [1, 2, None]


def test_no_topic_name_is_a_pattern():
    assert is_pattern(ORDERS)
    assert not is_pattern("orders.eu")


def segment(partitions, *marks):
    return Segment(0, 0, marks, partitions, 0, {})


def read(source, first, following, before_ms, after_ms, **said):
    return SourceMark(source, first, following, before_ms, after_ms, **said)


def step(table, each):
    entry = table.enter(each)
    table.leave(each)
    return entry


def test_a_topic_that_joins_holds_the_clock_until_it_has_spoken_and_never_moves_it_back():
    table = ClockTable([ORDERS])
    eu, both = {"orders.eu": 1}, {"orders.eu": 1, "orders.us": 1}
    step(table, segment(eu, read("orders.eu/0", 0, 5, NEVER_MS, 100)))
    assert table.clock_ms == 100
    step(table, segment(both, read("orders.eu/0", 5, 9, 100, 200)))
    assert (table.clock_ms, table.holder()) == (100, "orders.us/0")
    # Its old records are late from the clock on, as those of a partition that appears.
    entry = step(table, segment(both, read("orders.us/0", 0, 3, NEVER_MS, 20)))
    assert entry.floor_ms.tolist() == [100]
    assert table.clock_ms == 100
    step(table, segment(both, read("orders.us/0", 3, 9, 20, 150)))
    assert table.clock_ms == 150


def test_a_topic_without_a_record_is_idle_and_holds_nothing():
    table = ClockTable([ORDERS])
    both = {"orders.eu": 1, "orders.us": 1}
    eu = read("orders.eu/0", 0, 5, NEVER_MS, 100)
    step(table, segment(both, eu))
    assert table.clock_ms == NEVER_MS
    quiet = read("orders.us/0", 0, 0, NEVER_MS, NEVER_MS, idle=True, silence_ms=10_000)
    step(table, segment(both, quiet))
    assert table.clock_ms == 100


def test_marks_of_topics_that_do_not_match_move_nothing():
    table = ClockTable([ORDERS])
    step(table, segment({"clicks": 1}, read("clicks/0", 0, 5, NEVER_MS, 100)))
    assert (table.clock_ms, table.sources) == (NEVER_MS, {})
