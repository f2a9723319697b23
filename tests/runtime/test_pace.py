import pytest

from tidemark.runtime.pace import Pace


def test_a_commit_is_due_after_the_least_interval():
    pace = Pace(100, 1000, now_s=0.0)
    assert pace.until_due_s(0.0625) == pytest.approx(0.0375)
    assert pace.until_due_s(0.1) == 0.0
    assert pace.until_due_s(5.0) == 0.0


def test_the_interval_grows_while_there_is_no_time_to_wait_and_shrinks_when_there_is():
    pace = Pace(100, 1000, now_s=0.0)
    now_s, intervals = 0.0, []
    for waited_s in (0, 0, 0, 0, 0, 0.5, 0.05):
        now_s += pace.until_due_s(now_s)
        pace.waited(waited_s)
        pace.committed(now_s)
        intervals.append(round(pace.until_due_s(now_s), 3))

    assert intervals == [0.2, 0.4, 0.8, 1.0, 1.0, 0.1, 0.1]
