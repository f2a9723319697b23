"""The judge finds nothing in right runs of patterns, and everything that is wrong in them.

A run is made in one process.  A broker would cut its logs in other places.
"""

from dataclasses import replace

import pytest

from tests.chaos.judging.judge import judge
from tests.chaos.judging.patterns import found_in
from tests.chaos.judging.runs import Run, run_in_process
from tests.chaos.matching import Pattern
from tests.oracles.clock import Judged
from tidemark.partition import Partition

PATTERN = Pattern(5, 12, 1_000)


@pytest.fixture(scope="module")
def matched() -> Run:
    """Return a run of a pattern."""
    return run_in_process("matched", patterns=[PATTERN])


def test_a_pattern_without_a_fault_is_found_right(matched):
    plan, sent, recorded = matched
    assert judge(plan, sent, recorded, made_patterns=[PATTERN]).differences == []
    for output in ("match-0", "match-0-timeouts", "absence-0", "match-0.late"):
        assert recorded.values(f"matched.{output}"), output


@pytest.mark.parametrize(
    ("other", "topics"),
    [
        (PATTERN._replace(low=4), ["match-0", "match-0-timeouts", "absence-0"]),
        (PATTERN._replace(high=13), ["match-0", "match-0-timeouts"]),
        (PATTERN._replace(within_ms=999), ["match-0-timeouts", "absence-0"]),
    ],
)
def test_it_finds_results_that_plain_python_does_not_find(matched, other, topics):
    plan, sent, recorded = matched
    differences = judge(plan, sent, recorded, made_patterns=[other]).differences
    for topic in topics:
        assert any(each.startswith(f"matched.{topic}: ") for each in differences), differences


@pytest.mark.parametrize("output", ["match-0", "match-0-timeouts", "absence-0", "absence-0.late"])
def test_it_finds_what_is_missing_and_what_comes_twice(matched, output):
    plan, sent, recorded = matched
    messages = [each for n in range(2) for each in recorded.own[Partition(f"matched.{output}", n)]]
    at = Partition(f"matched.{output}", 0)
    for changed in (messages[1:], [*messages, messages[0]]):
        own = {**recorded.own, at: changed, at._replace(number=1): []}
        assert judge(plan, sent, replace(recorded, own=own), made_patterns=[PATTERN]).differences


def test_plain_python_finds_what_a_timeline_shows():
    """Low at 0 and 300, high at 900 and 950, low at 1,000: one match, a timeout, and absences."""
    times = {0: 1, 300: 2, 900: 12, 950: 15, 1_000: 4}
    rows = [Judged("t/0", at, 0, at, 0, "k", value) for at, value in times.items()]

    found = found_in(PATTERN, "k", rows[::-1])

    assert found.matches == [("k", (("t/0", 0, 0), ("t/0", 900, 0)), 900)]
    assert found.timeouts == [("k", (("t/0", 1_000, 0),), 1_999)]
    assert found.absences == [("k", (("t/0", 1_000, 0),), 1_999)]
