"""Which topics of a cluster belong to a pipeline (docs/semantics.md, "Several topics")."""

from typing import Any

import pytest

from tidemark import Pipeline, bounded, count, tumbling
from tidemark.plan.matched_topics import matched_topics

TIME: dict[str, Any] = {
    "schema": {"at": int, "id": str},
    "event_time": "at",
    "watermark": bounded("2s"),
}


def plan(*sources, name="p"):
    pipeline = Pipeline(name)
    for number, source in enumerate(sources):
        read = {"topics": source[1:-1]} if str(source).startswith("/") else {"topic": source}
        stream = pipeline.source(**read, **TIME)
        stream.key_by("id").window(tumbling("1m")).aggregate(n=count()).to(f"out{number}")
    return pipeline.plan()


def names(matched):
    return {topic: source.name for topic, source in matched.sources.items()}


def test_topics_belong_to_the_source_that_names_or_matches_them():
    matched = matched_topics(
        plan("clicks", "/orders-.*/", ["b", "a"]), ["a", "b", "clicks", "orders-eu", "other"]
    )
    assert names(matched) == {
        "clicks": "clicks",
        "orders-eu": "/orders-.*/",
        "a": "b+a",
        "b": "b+a",
    }
    assert (matched.missing, matched.unmatched, matched.disputed) == ((), (), {})


def test_what_is_not_there_is_said():
    matched = matched_topics(plan(["a", "b"], "/orders-.*/"), ["a"])
    assert (matched.missing, matched.unmatched) == (("b",), ("/orders-.*/",))
    assert matched.waits() == ["source /orders-.*/ matches no topic yet"]


def test_a_topic_that_two_patterns_match_is_read_by_neither():
    matched = matched_topics(plan("/orders-.*/", "/.*-eu/"), ["orders-eu", "orders-us", "a-eu"])
    assert names(matched) == {"orders-us": "/orders-.*/", "a-eu": "/.*-eu/"}
    assert matched.disputed == {"orders-eu": ("/orders-.*/", "/.*-eu/")}
    assert matched.lines() == [
        "source /orders-.*/ reads orders-us",
        "source /.*-eu/ reads a-eu",
        "topic orders-eu belongs to sources /orders-.*/ and /.*-eu/: change a pattern, so that one "
        "of them matches it",
    ]


@pytest.mark.parametrize(
    "own",
    [
        "__consumer_offsets",
        "orders.dead-letters",
        "orders.dead-letters.retried",
        "orders.stats",
        "orders.generations",
        "orders.by-id.log",
        "orders.out0",
        "orders.out0.late",
        "orders.out0.changelog",
        "orders.by-city.log",  # of an earlier form of the pipeline
        "orders.gone",
        "orders.gone.late",
        "orders.gone.changelog",
    ],
)
def test_a_pattern_takes_no_topic_that_the_pipeline_or_the_brokers_write(own):
    there = [own, "orders.gone.changelog", "orders.eu"]
    matched = matched_topics(plan("/.*/", name="orders"), there)
    assert names(matched) == {"orders.eu": "/.*/"}
    assert own in matched.own


def test_results_of_another_pipeline_are_topics_as_all_others():
    matched = matched_topics(plan("/.*/"), ["q.sums", "q.sums.changelog"])
    assert set(matched.sources) == {"q.sums", "q.sums.changelog"}


def test_a_named_topic_is_read_whatever_its_name():
    assert set(matched_topics(plan("p.first.log"), ["p.first.log"]).sources) == {"p.first.log"}
