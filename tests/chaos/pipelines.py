"""The pipelines of the chaos runs: two raw topics, two key domains, every kind of window.

A run takes some of the operators, and chains of others.  ``FROM_RAW`` names those whose final panes
are a function of the raw topics alone (docs/semantics.md, "Promises", 2); the results of chains are
such functions, too; the other operators are functions of the log.
"""

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import tidemark as td
from tests.chaos.joining import publish, stages_of
from tests.chaos.matching import publish_matches
from tests.support.chain import results_of
from tidemark import Pipeline, col, count, every, on_close, on_final, on_update
from tidemark.language.aggregated import AggregatedStream
from tidemark.language.keyed import KeyedStream
from tidemark.language.stream import Stream

END = "end"
"""The key of the records that close all windows; its own stay open."""

TOPICS = ("moves", "visits")
SCHEMA = {"who": str, "team": str, "at": int, "v": int, "x": float, "kind": str}
EARLY = on_close(early=every(rows=5))

Values = dict[str, Any]
Make = Callable[[KeyedStream], AggregatedStream]


def _counts() -> Values:
    return {"n": count(), "v": td.sum("v")}


def _many() -> Values:
    return {**_counts(), "x": td.sum("x"), "first": td.first("v"), "last": td.last("x")}


def _window(window: Any, values: Values, allowed: str | int = 0, **how: Any) -> Make:
    return lambda keyed: keyed.window(window, allowed_lateness=allowed, **how).aggregate(**values)


_TENS, _VISITS = td.tumbling("10s"), td.session("2s")

OF_PEOPLE: dict[str, Make] = {
    "tumbling": _window(_TENS, _many(), "5s"),
    "early": _window(_TENS, _counts(), "5s", trigger=EARLY),
    "final": _window(_TENS, {"n": count(), "all": td.collect("v")}, "5s", trigger=on_final()),
    "hopping": _window(td.hopping("10s", "4s"), _many(), "5s"),
    "sliding": _window(td.sliding("3s"), _counts(), "2s"),
    "sessions": _window(_VISITS, _many(), "3s"),
    "merging": _window(_VISITS, _counts(), "3s", lateness="after_merging"),
    "updated": _window(_VISITS, _counts(), "3s", trigger=on_update()),
    "counted": _window(td.count_window(10, 4), _many()),
    "rolling": lambda people: people.aggregate(n=count(), v=td.sum("v"), best=td.max("x")),
    "clocked": _window(td.processing_time(td.tumbling("2s")), _counts()),
    "ticking": _window(td.tumbling("1m"), _counts(), "5s", trigger=every(processing_time="1s")),
}
OF_TEAMS: dict[str, Make] = {
    "avro": _window(td.tumbling("30s"), _many(), "10s"),
    "filled": _window(_TENS, _counts(), "5s", empty=True),
    "team-sessions": _window(td.session("1s"), _many(), "3s", trigger=on_update()),
}
SESSIONS = ("sessions", "merging", "updated")
OPERATORS = {**OF_PEOPLE, **OF_TEAMS}
FROM_RAW = {"tumbling", "early", "final", "hopping", "sliding", "sessions", "avro", "filled"}


def build(
    name: str,
    operators: Sequence[str] = tuple(OPERATORS),
    partitions: int = 2,
    idle_after: str = "1h",
    when_silent: Any = "wait",
    chains: Sequence[Sequence[Any]] = (),
    joins: Sequence[Any] = (),
    patterns: Sequence[Any] = (),
) -> Pipeline:
    """Return a pipeline with some of the operators.

    ``chains``: of ``Stage``, ``joins``: of ``Join``, ``patterns``: of ``Pattern``; also as JSON.
    """
    pipeline = Pipeline(name, partitions=partitions)
    moves, visits = (
        pipeline.source(
            f"{name}-{topic}",
            schema=SCHEMA,
            event_time="at",
            watermark=td.bounded(delay),
            max_future="1h",
            idle_after=idle_after,
            when_silent=when_silent,
        ).filter(col("kind").is_null() | (col("kind") != "skip"))
        for topic, delay in zip(TOPICS, ("2s", "1s"), strict=True)
    )
    both = moves.union(visits)
    _publish(both, "who", operators, OF_PEOPLE)
    _publish(moves, "team", operators, OF_TEAMS)
    values = both.select(key=col("who"), value=col("v").fill_null(0))
    for number, stages in enumerate(chains):
        results_of(values.key_by("key"), stages_of(stages)).to(chain_name(number))
    publish(moves, visits, joins)
    publish_matches(values.key_by("key"), patterns)
    return pipeline


def chain_name(number: int) -> str:
    """Return the name of the output of a chain."""
    return f"chain-{number}"


def _publish(stream: Stream, key: str, chosen: Sequence[str], made: dict[str, Make]) -> None:
    keyed = stream.key_by(key)
    for name in chosen:
        if name in made:
            made[name](keyed).to(name, format="avro" if name == "avro" else "json")


pipeline = build(
    os.environ.get("TEST_PIPELINE", "chaos"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
