"""The pattern that runs beside Flink: every match is the match of SQL."""

import pytest

from bench.nexmark.arrival import values
from bench.nexmark.in_process import run
from bench.nexmark.reference import Reference
from bench.patterns.queries import HOT_SHARE, PATTERNS, READINGS, SMOKE_SHARE, readings
from tidemark import col


@pytest.mark.parametrize("is_opened", [False, True])
def test_every_match_is_the_match_of_sql(is_opened, tmp_path):
    events = readings(20_000, 300, 1, seed=1, is_opened=is_opened)
    (frame,) = events.values()
    fits = frame.filter((col("celsius") > 80) | (col("kind") == "smoke")).height
    wanted = 20_000 * (HOT_SHARE + SMOKE_SHARE) + 300 * is_opened
    assert fits == pytest.approx(wanted, rel=0.1)

    made = run("fire", PATTERNS["fire"], {READINGS: values(frame)}, seed=1)

    found = Reference(events, tmp_path).compare(
        PATTERNS["fire"].sql, PATTERNS["fire"].results, made.results
    )
    assert found.is_equal, found.examples
    assert found.rows > 50
    assert made.late == 0
