"""Open windows by age, by operator: docs/monitor.md, "Open windows"."""

from tests.monitor.samples import NOW_MS, stats
from tidemark.monitor.status import status
from tidemark.runtime.service.histogram import BOUNDS_MS
from tidemark.runtime.service.stats import ClockStats, OperatorStats

YOUNG, BOTH = [0, 2, *[0] * 17], [0, 2, *[0] * 16, 1]


def clock(partition, *, windows, begin_ms=None, end_ms=None, ages=()):
    return ClockStats(
        partition,
        60_000,
        open_windows=windows,
        oldest_begin_ms=begin_ms,
        oldest_end_ms=end_ms,
        ages=list(ages),
    )


def shown(*clocks, operator="pops"):
    seen = stats(operators=[OperatorStats(operator, "p.log", 5, 0, 1, list(clocks), [])])
    (found,) = status("p", [seen], [], NOW_MS)["open_windows"]
    return found


def test_the_partitions_of_an_operator_are_added_and_the_oldest_window_is_named():
    found = shown(
        clock(0, windows=2, begin_ms=50, end_ms=90, ages=YOUNG),
        clock(1, windows=3, begin_ms=-40, end_ms=80, ages=BOTH),
    )
    assert found["operator"] == "pops"
    assert (found["open_windows"], found["partition"]) == (5, 1)
    assert (found["oldest_begin_ms"], found["oldest_end_ms"]) == (-40, 80)
    some = {each["up_to_ms"]: each["windows"] for each in found["ages"] if each["windows"]}
    assert some == {BOUNDS_MS[1]: 4, None: 1}


def test_windows_without_an_age_are_counted_only():
    found = shown(clock(0, windows=7))
    assert found == {
        "operator": "pops",
        "open_windows": 7,
        "partition": None,
        "oldest_begin_ms": None,
        "oldest_end_ms": None,
        "ages": [],
    }


def test_ages_of_other_buckets_do_not_count():
    """A service of another version may have written them."""
    assert shown(clock(0, windows=7, begin_ms=5, end_ms=9, ages=[1, 2]))["ages"] == []
