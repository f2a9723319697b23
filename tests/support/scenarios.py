"""Scenarios that hold wherever a pipeline runs; each is a test for itself."""

from typing import Any

from tidemark.testing import Scenario

_PIPELINE = """
from tidemark import Pipeline, bounded, count, sum, tumbling

pipeline = Pipeline("{name}", partitions=2)
moves = pipeline.source(
    "{name}-moves",
    schema={{"player": str, "at": int, "score": int}},
    event_time="at",
    watermark=bounded("2s"),
    idle_after="{idle_after}",
)
moves.key_by("player").window(tumbling("10s"), allowed_lateness="5s").aggregate(
    pops=count(), score=sum("score")
).to("pops")
"""


def module(name: str, idle_after: str) -> str:
    """Return a module; where time passes, ``idle_after`` is long unless silence is the matter."""
    return _PIPELINE.format(name=name, idle_after=idle_after)


def move(player: str, at: int, score: int = 1) -> dict[str, Any]:
    return {"player": player, "at": at, "score": score}


def windows_close_as_time_goes_on(run: Scenario) -> None:
    #  a  --1-----9------16 (late for [0, 10) by nothing: 14 + 5)
    moves = run.plan.named_topics[0]
    run.send(moves, move("a", 1_000), move("a", 9_000, score=4), move("b", 3_000))
    run.expect_panes("pops")
    run.advance(moves, 11_999)
    run.expect_panes("pops")
    run.advance(moves, 12_000)
    first = {"player": "a", "start": 0, "end": 10_000, "pops": 2, "score": 5, "final": False}
    other = {**first, "player": "b", "pops": 1, "score": 1}
    run.expect_panes("pops", first, other)
    run.send(moves, move("a", 2_000))
    run.expect_panes("pops", {**first, "pops": 3, "score": 6}, other)
    run.expect_late("pops")
    run.advance(moves, 17_000)
    run.send(moves, move("late", 2_000, score=7))
    run.expect_late("pops", {"player": "late", "score": 7, "end": 10_000, "late_by_ms": 0})
    run.send(moves, b"not json")
    run.expect_dead_letters({"stage": "parse", "value": "not json"})


def services_come_back_with_what_they_had(run: Scenario) -> None:
    moves = run.plan.named_topics[0]
    run.send(moves, move("a", 1_000))
    run.crash("windowing")
    run.send(moves, move("a", 2_000))
    run.restart("windowing")
    run.expect_panes("pops")
    run.crash("ingest")
    run.send(moves, move("a", 3_000))
    run.restart("ingest")
    run.advance(moves, 12_000)
    run.expect_published("pops", {"player": "a", "pops": 3, "revision": 3})
    run.crash("windowing")
    run.restart("windowing")
    run.advance(moves, 30_000)
    run.expect_published("pops", {"player": "a", "pops": 3, "revision": 3})


def a_silent_partition_lets_windows_close_once_it_is_idle(run: Scenario) -> None:
    #  moves/0  --1---------------------- 60
    #  moves/1  --1   (silent)
    moves = run.plan.named_topics[0]
    run.send(moves, move("a", 1_000), partition=1)
    run.send(moves, move("a", 1_500), partition=0)
    run.idle(moves, partition=1)
    run.advance(moves, 60_000, partition=0)
    run.expect_panes("pops", {"player": "a", "pops": 2})


def a_flush_closes_what_is_open(run: Scenario) -> None:
    #  moves/0  --1-- flush up to 10 --3--11-- flush up to 15: [0, 10) takes no more --4 (late)
    #  moves/1  (empty)
    moves = run.plan.named_topics[0]
    run.send(moves, move("a", 1_000))
    run.expect_panes("pops")
    run.flush(10_000)
    first = {"player": "a", "start": 0, "end": 10_000, "pops": 1}
    run.expect_panes("pops", first)
    run.send(moves, move("a", 3_000), move("b", 11_000))
    run.expect_panes("pops", {**first, "pops": 2})
    run.flush(15_000)
    run.send(moves, move("a", 4_000, score=7))
    run.expect_panes("pops", {**first, "pops": 2})
    run.expect_late("pops", {"player": "a", "score": 7, "late_by_ms": 0})
    run.expect_dead_letters()


SCENARIOS = (
    (windows_close_as_time_goes_on, 1, "1h"),
    (services_come_back_with_what_they_had, 1, "1h"),
    (a_flush_closes_what_is_open, 2, "1h"),
    (a_silent_partition_lets_windows_close_once_it_is_idle, 2, "3s"),
)
"""Each with the raw partitions it needs, and when they are idle."""
