"""Marks of silence: docs/semantics.md, "Silence".  The tests step the wall clock."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark import Pipeline, bounded, col, count, from_expression, punctuated, tumbling
from tidemark.ingest.silence import Silence, to_mark
from tidemark.partition import Partition
from tidemark.plan.physical import Plan

TICK_MS = 1_000


def build(size: str = "10s", **options: Any) -> Plan:
    pipeline = Pipeline("game")
    settings = {"event_time": "at", "watermark": bounded("2s"), "idle_after": "1s", **options}
    moves = pipeline.source("moves", schema={"k": str, "at": int, "done": bool}, **settings)
    moves.key_by("k").window(tumbling(size)).aggregate(n=count()).to("out")
    return pipeline.plan()


class Ingest:
    """Sources that fell silent at given moments, looked at once a second."""

    def __init__(self, plan: Plan, since_ms: Iterable[int] = (0,)) -> None:
        self.plan = plan
        self.since_ms = {Partition("moves", n): at for n, at in enumerate(since_ms)}
        self.marks: dict[Partition, list[int]] = {at: [] for at in self.since_ms}
        self.segments_ms: list[int] = []

    def run(self, until_ms: int, is_written: Callable[[int], bool] = lambda _: False) -> None:
        """Note the moments of segments written for marks, and the silences in all marks."""
        for now_ms in range(0, until_ms + 1, TICK_MS):
            silences = {
                at: Silence(max(self.marks[at], default=0), now_ms - since_ms)
                for at, since_ms in self.since_ms.items()
                if now_ms >= since_ms
            }
            marked = to_mark(silences, self.plan, is_written=is_written(now_ms))
            if marked and not is_written(now_ms):
                self.segments_ms.append(now_ms)
            for at in marked:
                self.marks[at].append(silences[at].lasted_ms)

    def of(self, number: int = 0) -> list[int]:
        return self.marks[Partition("moves", number)]


def most_marks(idle_ms: int, horizon_ms: int) -> float:
    """Return a bound of the segments of one silence: one a tick at first, then by tenths."""
    linear_ms = max(idle_ms, 10 * TICK_MS)
    return 12 + math.log(max(1, horizon_ms / linear_ms)) / math.log(1.1)


@pytest.mark.parametrize(
    ("options", "told_of"),
    [
        # The horizon is 2 s + 10 s; past it, marks follow only where no bound is known.
        ({}, [*range(1, 12), 13]),
        ({"when_silent": "wait"}, [1]),
        ({"watermark": punctuated(when=col("done"))}, [*range(1, 11), 20, 40]),
        ({"watermark": from_expression(col("at"))}, [*range(1, 11), 20, 40]),
    ],
)
def test_silence_is_reported_while_it_may_close_windows(
    options: dict[str, Any], told_of: list[int]
):
    ingest = Ingest(build(**options))
    ingest.run(60_000)
    assert ingest.of() == [second * 1_000 for second in told_of]


def test_marks_of_an_hour():
    ingest = Ingest(build("1h", watermark=bounded("0s"), idle_after="10s"))
    ingest.run(7_200_000)
    seconds = [at // 1_000 for at in ingest.of()]
    assert seconds[:6] == [10, 11, 13, 15, 17, 19]
    assert seconds[-3:] == [3_032, 3_336, 3_670]


def test_a_day_of_silence_costs_a_hundred_segments():
    """A mark a second were 86,400."""
    ingest = Ingest(build("1d", watermark=bounded("0s"), idle_after="10s"))
    ingest.run(95_040_000)
    assert len(ingest.segments_ms) == 93
    assert sum(at <= 3_600_000 for at in ingest.segments_ms) == 58


idles = st.sampled_from([1_000, 3_000, 10_000, 60_000])
sizes = st.integers(1, 10_000)


@given(idle_ms=idles, size_s=sizes, needed=st.floats(0, 1))
def test_marks_are_few_and_what_silence_publishes_is_a_tenth_late_at_most(idle_ms, size_s, needed):
    plan = build(f"{size_s}s", idle_after=f"{idle_ms}ms")
    ingest = Ingest(plan)
    ingest.run(2 * plan.horizon_ms + 2 * idle_ms)

    assert len(ingest.of()) <= most_marks(idle_ms, plan.horizon_ms)
    assert plan.horizon_ms <= ingest.of()[-1], "the last window stays open"
    needed_ms = round(needed * plan.horizon_ms)
    fires_ms = next(at for at in ingest.of() if at >= needed_ms)
    assert fires_ms <= 1.1 * max(needed_ms, idle_ms) + TICK_MS


@given(
    since_ms=st.lists(st.integers(0, 1_000_000), min_size=1, max_size=4),
    size_s=st.integers(60, 3_000),
    needed=st.floats(0, 1),
    written=st.sampled_from([10**9, 60_000, 7_000, 1_000]),
)
def test_each_of_several_sources_is_marked_in_time(since_ms, size_s, needed, written):
    plan = build(f"{size_s}s", idle_after="10s")
    ingest = Ingest(plan, since_ms)
    ingest.run(max(since_ms) + 2 * plan.horizon_ms, lambda now_ms: now_ms % written == 0)

    needed_ms = round(needed * plan.horizon_ms)
    most = most_marks(10_000, plan.horizon_ms)
    for number in range(len(since_ms)):
        fires_ms = next(at for at in ingest.of(number) if at >= needed_ms)
        assert fires_ms <= 1.1 * max(needed_ms, 10_000) + TICK_MS
        assert len(ingest.of(number)) <= 2 * most
    assert len(ingest.segments_ms) <= most * len(since_ms)


def test_sources_that_fall_silent_apart_are_marked_together():
    plan = build("1h", idle_after="10s")
    alone, many = Ingest(plan), Ingest(plan, range(0, 10_000, 100))
    alone.run(4_500_000)
    many.run(4_500_000)
    assert len(many.segments_ms) <= len(alone.segments_ms) + 10


def test_beside_active_sources_silence_needs_no_segment():
    ingest = Ingest(build("1h", idle_after="10s"), (0, 4_000))
    ingest.run(4_500_000, lambda _: True)
    assert ingest.segments_ms == []
    assert len(ingest.of(0)) <= 2 * most_marks(10_000, 3_602_000)
