"""The histogram of late rows, and what would have saved them: docs/why.md, "Late rows"."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.why.one_key import WINDOWS, run
from tidemark.commands.why.rows import late_lines
from tidemark.runtime.service.histogram import BOUNDS_MS, bucket_counts
from tidemark.testing import InProcess
from tidemark.why.late_rows import LateRowCounts, bounded_cures


def counted(scenario: InProcess) -> LateRowCounts:
    counts = LateRowCounts()
    counts.add(scenario.late("out"))
    return counts


@given(st.lists(st.integers(0, 200_000_000), min_size=1, max_size=40))
def test_a_share_is_saved_by_exactly_the_lateness_that_is_named(late_by_ms):
    counts = LateRowCounts(list(late_by_ms))
    for share, more_ms in counts.cures().items():
        saved = sum(each < more_ms for each in late_by_ms)
        fewer = sum(each < more_ms - 1 for each in late_by_ms)
        assert saved >= share * len(late_by_ms) > fewer
    buckets = counts.buckets()
    assert sum(each.rows for each in buckets) == len(late_by_ms) == buckets[-1].saved


@given(st.lists(st.integers(0, 200_000_000), min_size=1, max_size=40))
def test_a_histogram_names_a_lateness_that_surely_saves_a_share(late_by_ms):
    exact = LateRowCounts(list(late_by_ms)).cures()
    counts = bucket_counts(np.array(late_by_ms, np.int64))
    for share, more_ms in bounded_cures(counts).items():
        bound = next((each for each in BOUNDS_MS if each >= exact[share] - 1), None)
        assert more_ms == (None if bound is None else bound + 1)
    assert bounded_cures([0] * (len(BOUNDS_MS) + 1)) == {}


def test_the_lateness_that_is_named_saves_the_rows():
    events = [(0, "a", 1), (1, "a", 1), (0, "a", 30), (1, "a", 30), (0, "a", 2), (0, "a", 11)]
    scenario = run(WINDOWS["tumbling"], events)
    counts = counted(scenario)
    # W is 28 s: [0, 10) and 3 s passed 15 s ago, [10, 20) and 3 s 5 s ago.
    assert sorted(counts.late_by_ms) == [5_000, 15_000]
    assert counts.cures() == {0.5: 5_001, 0.9: 15_001, 0.99: 15_001, 1.0: 15_001}
    assert list(late_lines("out", counts)) == [
        "out: 2 late rows are recorded",
        "late by at most  rows  up to here",
        "             5s     1       50.0%  ##############################",
        "            30s     1      100.0%  ##############################",
        "50% of them count with an allowed lateness, or a bound of the watermark, that is 5001ms "
        "larger",
        *(
            f"{share} of them count with an allowed lateness, or a bound of the watermark, that is "
            "15001ms larger"
            for share in ("90%", "99%", "100%")
        ),
        "2 rows are of t/0",
    ]


def test_other_reasons_are_named_and_no_lateness_saves_them():
    counts = LateRowCounts()
    row = {"topic": "t", "partition": 0, "reason": "more than 5 pairs", "late_by_ms": None}
    counts.add([row, row])
    assert list(late_lines("out", counts)) == [
        "out: 2 late rows are recorded",
        "2 rows: more than 5 pairs; no lateness saves them",
        "2 rows are of t/0",
    ]
    assert list(late_lines("out", LateRowCounts())) == ["out: no late rows are recorded"]
