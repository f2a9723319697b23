"""Sources of several topics: a list, or a pattern."""

import json
from typing import Any

import pytest

from tests.support.mistakes import refused
from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark.local.run import LocalRun
from tidemark.plan.changes import changes
from tidemark.plan.program import program_of
from tidemark.testing import InProcess

TIME: dict[str, Any] = {
    "schema": {"at": int, "id": str},
    "event_time": "at",
    "watermark": bounded("2s"),
}


def built(*topic, **options):
    pipeline = Pipeline("p", partitions=1)
    stream = pipeline.source(*topic, **{**TIME, **options})
    counted = stream.with_columns(topic=col("_topic"), part=col("_partition"))
    counted.key_by("topic").window(tumbling("10s")).aggregate(n=count()).to("out")
    return pipeline


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "source(topic): give a topic, a list of topics, or topics="),
        ({"topic": "a", "topics": "b"}, "source(topic): give a topic"),
        ({"topic": []}, "source([]): the list names no topic"),
        ({"topic": ["a", "a"]}, "source(['a', 'a']): the list names a topic twice"),
        ({"topic": ["a", "b c"]}, "source(topic): 'b c' is not a legal topic name"),
        ({"topic": r"orders\..*"}, "source(topic): 'orders\\\\..*' is not a legal topic name"),
        ({"topics": "orders.*["}, "source(topics='orders.*['): not a regular expression: "),
        ({"topics": "*"}, "source(topics='*'): not a regular expression: "),
        ({"topics": ""}, "source(topics=''): not a regular expression; a list of topics is"),
        ({"topics": ["a", "b"]}, "source(topics=['a', 'b']): not a regular expression; a list"),
    ],
)
def test_a_mistake_is_named(options, message):
    with refused(message):
        built(**options)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"topic": "a"}, {"topic": ["b", "a"]}, "source(['b', 'a']): the pipeline already has"),
        (
            {"topic": "orders-eu"},
            {"topics": "orders-.*"},
            "source(topics='orders-.*'): source('orders-eu') reads orders-eu too",
        ),
        (
            {"topics": "orders-.*"},
            {"topic": ["orders-eu", "x"]},
            "source(['orders-eu', 'x']): source(topics='orders-.*') reads orders-eu too",
        ),
        ({"topics": "a.*"}, {"topics": "a.*"}, "source(topics='a.*'): the pipeline already has"),
    ],
)
def test_a_topic_belongs_to_one_source(first, second, message):
    pipeline = Pipeline("p")
    pipeline.source(**first, **TIME)
    with refused(message):
        pipeline.source(**second, **TIME)


def event(at, id_="x"):
    return json.dumps({"at": at, "id": id_}).encode()


@pytest.mark.parametrize(
    "options", [{"topic": ["orders.eu", "orders.us"]}, {"topics": r"orders\..*"}]
)
def test_topics_of_a_source_share_its_settings_and_are_known_by_a_column(options):
    run = LocalRun(built(**options).plan())
    inputs = {"orders.eu": [event(1_000), event(2_000), b"?"], "orders.us": [event(3_000)]}
    assert sum(run.run(inputs)) == 4
    panes = run.published["out"].last("panes")
    assert dict(panes.select("topic", "n").iter_rows()) == {"orders.eu": 2, "orders.us": 1}
    assert [letter.topic for letter in run.dead_letters] == ["orders.eu"]


def test_a_topic_of_a_pattern_joins_with_its_first_record():
    with InProcess(built(topics=r"orders\..*")) as run:
        run.send("orders.eu", {"at": 1_000, "id": "x"}, {"at": 14_000, "id": "x"})
        run.expect_panes("out", {"topic": "orders.eu", "n": 1})
        # Its clock begins with the others', so a row of a window that has closed is late.
        run.send("orders.us", {"at": 2_000, "id": "x"}, {"at": 11_000, "id": "x"})
        run.expect_late("out", {"topic": "orders.us", "at": 2_000})
        run.send("orders.eu", {"at": 40_000, "id": "x"})
        run.expect_panes("out", {"topic": "orders.eu", "n": 1})  # orders.us holds the clock
        run.send("orders.us", {"at": 40_000, "id": "x"})
        run.expect_panes(
            "out",
            {"topic": "orders.eu", "n": 1, "start": 0},
            {"topic": "orders.eu", "n": 1, "start": 10_000},
            {"topic": "orders.us", "n": 1, "start": 10_000},
        )


def test_a_topic_that_joins_changes_neither_the_plan_nor_the_program():
    plan = built(topics=r"orders\..*").plan()
    assert [stream.name for log in plan.logs for stream in log.streams] == [r"/orders\..*/"]
    before, after = program_of(plan, ["orders.eu"]), program_of(plan, ["orders.eu", "orders.us"])
    assert before.logs == after.logs
    assert changes(before, after) == []


def test_other_settings_of_a_pattern_are_a_change_of_each_topic_that_has_joined():
    before = program_of(built(topics=r"orders\..*").plan(), ["orders.eu"])
    slower = built(topics=r"orders\..*", watermark=bounded("3s")).plan()
    (change,) = changes(before, program_of(slower, ["orders.eu"]))
    assert str(change) == "the watermark of source orders.eu was bounded(2s), is now bounded(3s)"
