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
        pace.committed(now_s, now_s)
        intervals.append(round(pace.until_due_s(now_s), 3))

    assert intervals == [0.2, 0.4, 0.8, 1.0, 1.0, 0.1, 0.1]


def test_an_interval_begins_with_the_commit_and_not_behind_it():
    pace = Pace(100, 1000, now_s=0.0)
    pace.waited(0.06)
    pace.committed(0.1, 0.14)
    assert pace.until_due_s(0.14) == pytest.approx(0.06)


def test_commits_that_take_longer_than_the_interval_make_it_longer():
    pace = Pace(100, 1000, now_s=0.0)
    pace.committed(0.1, 0.3)
    assert pace.until_due_s(0.3) == pytest.approx(0.0, abs=1e-9)
    pace.committed(0.3, 0.5)
    assert pace.until_due_s(0.5) == pytest.approx(0.2)
