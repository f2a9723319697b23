"""The judge finds nothing in right runs of chains and joins, and everything that is wrong in them.

A run is made in one process.  A broker would cut its logs in other places.
"""

from dataclasses import replace
from functools import cache

import pytest

from tests.chaos.joining import Bounds, Join
from tests.chaos.judging.judge import judge
from tests.chaos.judging.runs import Run, operated, run_in_process, segments_of
from tests.oracles.chain import Stage, Windows
from tidemark.core.time.segment import Segment, is_operator_source
from tidemark.partition import Partition
from tidemark.serde.segments import encode_segment

CHAIN = (
    Stage(Windows("hopping", 4_000, 4_000), 3_000, 1, "same"),
    Stage(Windows("session", 3_000), 0, 1, "value"),
    Stage(Windows("hopping", 12_000, 6_000), 0, 1, "same"),
)


@pytest.fixture(scope="module")
def chained() -> Run:
    """Return a run of a chain of three stages."""
    return run_in_process("chained", chains=[CHAIN])


def test_a_chain_without_a_fault_is_found_right(chained):
    plan, sent, recorded = chained
    verdict = judge(plan, sent, recorded, [CHAIN])
    assert verdict.differences == []
    assert verdict.figures["handed on"] > 50


def test_it_finds_results_of_a_chain_that_plain_python_does_not_give(chained):
    plan, sent, recorded = chained
    other = [*CHAIN[:-1], CHAIN[-1]._replace(windows=Windows("hopping", 12_000, 12_000))]
    (difference,) = judge(plan, sent, recorded, [other]).differences
    assert difference.startswith("chained.chain-0: ")


def _at_a_row(segments: list[Segment]) -> int:
    return next(n for n, each in enumerate(segments) if n > 10 and _is_derived(each, rows=True))


def _at_a_mark(segments: list[Segment]) -> int:
    return next(n for n, each in enumerate(segments) if n > 10 and _is_derived(each, rows=False))


def _is_derived(segment: Segment, *, rows: bool) -> bool:
    sources = [mark.source for mark in segment.sources]
    return all(map(is_operator_source, sources)) and bool(segment.height) == rows


def _without_rows(segments: list[Segment]) -> list[Segment]:
    at = _at_a_row(segments)
    return segments[:at] + segments[at + 1 :]


def _with_rows_twice(segments: list[Segment]) -> list[Segment]:
    at = _at_a_row(segments)
    return segments[: at + 1] + segments[at:]


def _with_rows_behind_all(segments: list[Segment]) -> list[Segment]:
    return [*_without_rows(segments), segments[_at_a_row(segments)]]


def _without_the_last_mark(segments: list[Segment]) -> list[Segment]:
    at = max(n for n, each in enumerate(segments) if _is_derived(each, rows=False))
    return segments[:at] + segments[at + 1 :]


def _with_a_mark_too_far(segments: list[Segment]) -> list[Segment]:
    at = _at_a_mark(segments)
    (mark,) = segments[at].sources
    far = replace(mark, watermark_ms=mark.watermark_ms + 1)
    return [*segments[:at], replace(segments[at], sources=(far,)), *segments[at + 1 :]]


@pytest.mark.parametrize(
    "edit",
    [
        _without_rows,
        _with_rows_twice,
        _with_rows_behind_all,
        _without_the_last_mark,
        _with_a_mark_too_far,
    ],
)
def test_it_finds_a_wrong_part_of_a_chain(chained, edit):
    plan, sent, recorded = chained
    at = Partition("chained.by-key.log", 1)
    values = [(None, encode_segment(each)) for each in edit(segments_of(recorded, at))]
    edited = operated(plan, replace(recorded, own={**recorded.own, at: values}))
    assert judge(plan, sent, edited, [CHAIN]).differences


SUMS = [Stage(Windows("hopping", 4_000, 4_000))]
JOINS = {
    "time": Join(Bounds("time", -200, 100), "full", 3_000, True, SUMS),
    "first": Join(Bounds("first", -200, 100), "left", 3_000, False, SUMS),
    "window": Join(Bounds("window", 500, 1_000), "full", 3_000, True, SUMS),
    "table": Join(Bounds("table", 0, 5_000), "left", 3_000, True, SUMS),
    "broadcast": Join(Bounds("broadcast", 0, 5_000), "left", 3_000, False, SUMS),
}


@cache
def _run_of(kind: str) -> Run:
    """Return a run of the join of a kind, and of windows over its rows."""
    return run_in_process("joined", joins=[JOINS[kind]])


@pytest.mark.parametrize("kind", JOINS)
def test_a_join_without_a_fault_is_found_right(kind):
    plan, sent, recorded = _run_of(kind)
    verdict = judge(plan, sent, recorded, made_joins=[JOINS[kind]])
    assert verdict.differences == []
    assert verdict.figures["handed on"] > 50
    assert recorded.values("joined.join-0.late-left")


@pytest.mark.parametrize(
    ("kind", "change", "topics"),
    [
        ("time", {"how": "left"}, "results, sums"),
        ("time", {"bounds": Bounds("time", -200, 90)}, "results, sums"),
        ("time", {"lateness_ms": 0}, "results, sums, late"),
        ("time", {"stages": CHAIN}, "sums"),
        ("first", {"how": "inner"}, "results, sums"),
        ("first", {"bounds": Bounds("time", -200, 100)}, "results, sums"),
        ("first", {"lateness_ms": 0}, "results, sums, late"),
        ("window", {"how": "left"}, "results, sums"),
        ("window", {"bounds": Bounds("window", 500, 500)}, "results, sums, late"),
        ("window", {"lateness_ms": 0}, "results, sums, late"),
        ("table", {"how": "inner"}, "results, sums"),
        ("table", {"bounds": Bounds("table", 0, 300)}, "results, late"),
        ("table", {"lateness_ms": 0}, "results, sums, late"),
        ("broadcast", {"how": "inner"}, "results, sums"),
        ("broadcast", {"bounds": Bounds("table", 0, 5_000)}, "results, sums"),
        ("broadcast", {"bounds": Bounds("broadcast", 0, 300)}, "results, sums, late"),
        ("broadcast", {"lateness_ms": 0}, "results, sums, late"),
    ],
)
def test_it_finds_results_of_a_join_that_plain_python_does_not_give(kind, change, topics):
    plan, sent, recorded = _run_of(kind)
    other = JOINS[kind]._replace(**change)
    differences = judge(plan, sent, recorded, made_joins=[other]).differences
    words = {
        "joined.join-0": "results",
        "joined.join-0-sums": "sums",
        "late rows of join-0": "late",
    }
    assert {words[each.partition(":")[0]] for each in differences} == set(topics.split(", "))
