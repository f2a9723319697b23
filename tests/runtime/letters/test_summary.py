"""Counts by reason put together what differs only in values, in bounded memory."""

import pytest

from tests.runtime.letters.samples import stored
from tidemark.runtime.letters.summary import Summary
from tidemark.runtime.service.reasons import OTHERS, pattern


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("column a: expected int, got str", "column a: expected int, got str"),
        ("not JSON: invalid character (byte 17)", "not JSON: invalid character (byte N)"),
        ("event time at: '2026-13-01' is no time", "event time at: '...' is no time"),
        ("a2: 5 is \"x\" and 'it''s'", "a2: N is '...' and '...''...'"),
        ("v1.2 at 2026-01-01T00:00:00Z", "v1.2 at N"),
    ],
)
def test_the_pattern_of_a_reason(reason, expected):
    assert pattern(reason) == expected


def test_reasons_are_counted_with_their_stage_and_newest_letter():
    summary = Summary("reason", newest=0)
    for number in range(10):
        summary.add(stored(number, reason=f"byte {number}", stage="log" if number > 6 else "parse"))
    assert dict(summary.groups) == {("byte N", "parse"): 7, ("byte N", "log"): 3}
    assert summary.examples["byte N", "parse"].id == 6
    assert (summary.count, len(summary.kept)) == (10, 0)


def test_only_the_newest_are_kept_without_the_ends_of_long_values():
    summary = Summary(newest=2)
    for number in range(5):
        summary.add(stored(number, value="x" * 100_000, key="k" * 1_000, reason="r" * 1_000))
    assert [each.id for each in summary.kept] == [3, 4]
    assert all(len(each.letter.value or "") < 310 for each in summary.kept)
    assert summary.count == 5


def test_very_many_reasons_become_one():
    summary = Summary("reason", newest=0)
    for number in range(3_000):
        summary.add(stored(number, reason="x" * (number + 1)))
    assert len(summary.groups) == 1_001
    assert summary.groups[OTHERS, ""] == 2_000
