"""Joins that are known to fail in other systems, each with the report that describes it.

| report                                                   | test                                  |
|----------------------------------------------------------|---------------------------------------|
| joins with tables: ksql#7566, FLINK-37153, FLINK-39719,  | test_tables.py                        |
| RisingWave#16045                                         |                                       |
| trials B35, B57                                          | tests/testing/test_joins.py           |
| SPARK-58904, nulls of an outer join; the report itself   | SPARK-26154, KAFKA-10847 here; no     |
| is not public                                            | recording changes what is unmatched:  |
|                                                          | test_properties.py                    |
| all others                                               | here                                  |
"""

import pytest

from tests.oracles.join import JoinRules
from tests.support.joins.by_hand import Joining


def test_no_unmatched_row_comes_while_a_partner_may():
    """KAFKA-10847: a left join gave a row with nulls at once, and the pair later."""
    join = Joining(JoinRules("left", -10, 10))

    assert join.step("L1 a 0", left=5, right=5) == []
    assert join.step(left=10, right=10) == []
    assert join.step("R1 a 10", left=10, right=10) == ["L1+R1 10"]
    assert join.step(left=100, right=100) == []


@pytest.mark.parametrize("how", ["left", "full"])
def test_an_unmatched_row_comes_although_time_stops(how):
    """ksql#9084: no row with nulls came until a later record moved the time of the stream."""
    join = Joining(JoinRules(how, 0, 10))
    join.step("L1 a 0", left=1, right=1)

    assert join.step(silence_ms=9) == []
    assert join.step(silence_ms=10) == ["L1 10"]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("how", ["left", "full"])
def test_a_matched_row_stays_matched_when_its_partner_is_dropped(how, restarts):
    """SPARK-26154: the right row left the state first, and the left row came with nulls then."""
    join = Joining(JoinRules(how, 0, 5))

    assert join.step("L1 a 5 | R1 a 5", left=6, right=6) == ["L1+R1 5"]
    assert join.purge() == 1
    if restarts:
        join.task.take_snapshot()
        join.task.compact()
        join.task.restart()
    assert join.step(left=11, right=11) == []
    assert join.purge() == 0
    assert join.finish() == []


def test_a_late_left_row_within_the_lateness_waits_for_its_partner():
    """KAFKA-19536: an old left row within the grace period came with nulls, and paired later."""
    join = Joining(JoinRules("left", -10, 10, lateness_ms=50))
    join.step(left=100, right=100)

    assert join.step("L1 a 60") == []
    assert join.step("R1 a 65") == ["L1+R1 65"]
    assert join.step(left=200, right=200) == []


def test_a_row_too_late_to_pair_is_late_and_never_unmatched():
    """KAFKA-16123: late rows came with nulls, outside of any window of the join."""
    join = Joining(JoinRules("full", -10, 10, lateness_ms=5))
    join.step(left=100, right=100)

    assert join.step("L1 a 94 | R1 a 94 | L2 a 95") == []
    assert join.late == ["L1", "R1"]
    assert join.finish() == ["L2 105"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (("R1 a 12", "L1 a 10", "R2 a 8"), ["L1+R1 12", "L1+R2 10"]),
        (("L1 a 12", "R1 a 10", "L2 a 8"), ["L1+R1 12", "L2+R1 10"]),
        (("R1 a 20", "R2 a 8", "L1 a 10"), ["L1+R2 10"]),
    ],
)
def test_rows_out_of_order_pair_whatever_came_before_them(rows, expected):
    """Quix: an interval join looked only at rows after the latest, and missed older ones."""
    join = Joining(JoinRules("inner", -5, 5))

    found = [result for row in rows for result in join.step(row, left=0, right=0)]

    assert found == expected


def test_time_alone_frees_the_state():
    """RisingWave#16045: rows left the state only when a row of the same key came."""
    join = Joining(JoinRules("inner", -10, 10))
    join.step("|".join(f"L{n} k{n} {n} | R{n} q{n} {n}" for n in range(20)), left=0, right=0)

    join.step(left=15, right=40)  # of both sides, the rows of 5 and later may still pair
    assert join.purge() == 30
    join.step(left=40, right=40)
    assert join.purge() == 0
    pieces = list(join.task.state.snapshot())
    assert not any(frame.height for piece in pieces for frame in piece.values())


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize(
    ("lower_ms", "upper_ms"), [(0, 100), (-100, 0), (-100, 100), (0, 0), (5, 9)]
)
def test_both_bounds_are_in_the_interval_and_their_neighbours_are_not(how, lower_ms, upper_ms):
    """KAFKA-15417: bounds of windows with one side were those of the other side."""
    join = Joining(JoinRules(how, lower_ms, upper_ms))
    times = (999 + lower_ms, 1_000 + lower_ms, 1_000 + upper_ms, 1_001 + upper_ms)

    rows = "|".join(f"R{n} a {at}" for n, at in enumerate(times))
    pairs = join.step(f"L1 a 1000 | {rows}", left=0, right=0)

    assert sorted(pairs) == sorted(f"L1+R{n} {max(1000, times[n])}" for n in (1, 2))
    alone = [f"R{n} {max(times[n], times[n] - lower_ms)}" for n in (0, 3)]
    assert sorted(join.finish()) == (alone if how == "full" else [])


def test_a_left_row_is_unmatched_just_after_its_upper_bound():
    """KAFKA-15417: with an upper bound of 0, a left row came with nulls before its partner."""
    join = Joining(JoinRules("left", -100, 0))

    assert join.step("L1 a 100 | L2 b 101", left=100, right=100) == []
    assert join.step("R1 a 100", left=101, right=101) == ["L1+R1 100"]
    assert join.step(left=102, right=101) == []
    assert join.step(left=102, right=102) == ["L2 101"]
