from itertools import pairwise

import pytest

from tidemark.runtime.service.commit_interval import CommitInterval


class Commits:
    """Commits that take no time, each when it is due; ``busy``: share of the time without waits."""

    def __init__(self, least_ms: int = 50, most_ms: int = 500) -> None:
        self._commit_interval = CommitInterval(least_ms, most_ms, now_s=0.0)
        self._now_s = 0.0

    @property
    def interval_ms(self) -> int:
        return round(self._commit_interval.until_due_s(self._now_s) * 1000)

    def commit(self, busy: float) -> int:
        """Return the interval after it."""
        return self.commit_after(self.interval_ms, busy)

    def commit_after(self, elapsed_ms: float, busy: float) -> int:
        self._commit_interval.waited(elapsed_ms / 1000 * (1 - busy))
        self._now_s += elapsed_ms / 1000
        self._commit_interval.committed(self._now_s, self._now_s)
        return self.interval_ms


def lengthened() -> Commits:
    """Return commits whose interval is 100 ms, of 50 to 500."""
    commits = Commits()
    while commits.interval_ms < 100:
        commits.commit(0.95)
    return commits


def test_a_commit_is_due_after_the_least_interval():
    pace = CommitInterval(100, 1000, now_s=0.0)
    assert pace.until_due_s(0.0625) == pytest.approx(0.0375)
    assert pace.until_due_s(0.1) == 0.0
    assert pace.until_due_s(5.0) == 0.0


def test_the_interval_doubles_while_there_is_no_time_to_wait_and_is_halved_when_there_is():
    commits = Commits(100, 1000)
    busy = [commits.commit(0.95) for _ in range(7)]
    assert busy == [100, 100, 200, 400, 800, 1000, 1000]
    assert [commits.commit(0.4) for _ in range(5)] == [500, 250, 125, 100, 100]


def test_between_the_two_it_stays():
    commits = lengthened()
    assert {commits.commit(busy) for busy in (0.5, 0.7, 0.89)} == {100}


def test_halving_never_leads_to_an_interval_that_doubles_again():
    """Of work for each row and each commit, whatever their shares are."""
    for row, commit_ms in ((0.0, 44.0), (0.2, 24.0), (0.4, 4.0), (0.44, 0.0)):
        commits = lengthened()
        intervals = [commits.commit(row + commit_ms / commits.interval_ms) for _ in range(10)]
        assert intervals == [50] * 10


def test_a_slow_machine_stays_at_the_interval_that_it_can_keep_and_tries_others_ever_more_seldom():
    commits = Commits()
    intervals = [commits.commit(0.1 + 60 / commits.interval_ms) for _ in range(6_000)]
    tries = [at for at, (before, after) in enumerate(pairwise(intervals)) if before > after]
    waits = [after - before for before, after in pairwise(tries)]

    assert set(intervals) == {50, 100}
    assert tries[0] < 25
    assert waits == sorted(waits)
    assert waits[-1] > 1_000


def test_one_stall_does_not_make_the_interval_longer():
    commits = Commits()
    assert commits.commit_after(3_000, 0.99) == 50
    assert commits.commit_after(400, 1.0) == 50
    assert {commits.commit(0.6) for _ in range(100)} == {50}


def test_stalls_far_apart_are_not_counted_together():
    commits = Commits()
    assert {commits.commit(busy) for busy in (0.95, 0.95, 0.6) * 10} == {50}


def test_a_try_that_succeeded_makes_later_ones_no_rarer():
    commits = Commits()
    for _ in range(5):
        for _ in range(3):
            commits.commit(0.95)
        assert commits.interval_ms == 100
        intervals = [commits.commit(0.6) for _ in range(50)]
        assert intervals[20:] == [50] * 30


def test_each_step_back_from_the_longest_is_tried():
    commits = Commits()
    while commits.interval_ms < 500:
        commits.commit(0.95)
    intervals = [commits.commit(0.6) for _ in range(100)]
    assert sorted(set(intervals), reverse=True) == [500, 250, 125, 62, 50]
    assert intervals[-1] == 50


def test_after_a_time_without_input_the_interval_is_the_least():
    commits = Commits()
    while commits.interval_ms < 500:
        commits.commit(0.95)
    assert commits.commit_after(60_000, 0.01) == 50


def test_an_interval_that_may_not_grow_stays():
    commits = Commits(60_000, 60_000)
    assert {commits.commit(busy) for busy in (0.99, 0.99, 0.5, 0.0)} == {60_000}


def test_an_interval_begins_with_the_commit_and_not_behind_it():
    pace = CommitInterval(100, 1000, now_s=0.0)
    pace.waited(0.06)
    pace.committed(0.1, 0.14)
    assert pace.until_due_s(0.14) == pytest.approx(0.06)


def test_commits_that_take_longer_than_the_interval_make_it_longer():
    pace = CommitInterval(100, 1000, now_s=0.0)
    for begun_s in (0.1, 0.3, 0.5, 0.7):
        pace.committed(begun_s, begun_s + 0.2)
    assert pace.until_due_s(0.9) == pytest.approx(0.2)
