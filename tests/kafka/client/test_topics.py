"""Topics are created with the settings that keep data, and refused without them."""

import sys
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import NewTopic

from tests.kafka.pipelines.pops import build, pipeline
from tidemark.commands.cli import topics as command
from tidemark.errors import ConfigurationError
from tidemark.plan.topics import own_topics, raw_topics
from tidemark.runtime.client import clients
from tidemark.runtime.client.topics import ensure, partition_counts, require, topic_ids
from tidemark.runtime.config import Config


@pytest.fixture
def admin(broker):
    return clients.admin(Config(bootstrap_servers=broker))


def test_topics_are_created_once_and_then_verified(admin):
    topics = own_topics(build("created").plan())
    assert set(ensure(admin, topics, -1)) == {topic.name for topic in topics}
    assert ensure(admin, topics, -1) == []
    counts = partition_counts(admin)
    assert {topic.name: counts[topic.name] for topic in topics} == {
        topic.name: topic.partitions for topic in topics
    }
    assert all(topic_ids(admin, [topic.name for topic in topics]).values())


@pytest.mark.parametrize(
    ("partitions", "config", "fault"),
    [
        (3, {}, "3 partitions where the pipeline needs 2"),
        (2, {"message.timestamp.type": "CreateTime"}, "CreateTime where it needs LogAppendTime"),
        (2, {"retention.ms": "60000"}, "retention.ms=60000 where it needs at least 604800000"),
        (2, {"cleanup.policy": "compact"}, "cleanup.policy=compact where it needs delete"),
        (2, {"max.message.bytes": "1048588"}, "max.message.bytes=1048588 where it needs at least"),
    ],
)
def test_a_topic_with_other_settings_is_refused(admin, partitions, config, fault):
    name = f"refused-{abs(hash(fault))}"
    results = next(t for t in own_topics(build(name).plan()) if t.name == f"{name}.pops")
    settings = {**results.settings, **config}
    created = admin.create_topics([NewTopic(results.name, partitions, 1, config=settings)])
    created[results.name].result()

    with pytest.raises(ConfigurationError, match=f"^topic {results.name} exists with .*{fault}"):
        ensure(admin, [results], -1)


@pytest.mark.parametrize("kind", ["pops", "pops.late", "pops.changelog", "dead-letters"])
def test_a_topic_that_takes_smaller_messages_is_refused_with_what_it_needs(admin, kind):
    name = f"small-{kind}"
    topic = next(t for t in own_topics(build(name).plan()) if t.name == f"{name}.{kind}")
    settings = {**topic.settings, "max.message.bytes": "1048588"}
    created = admin.create_topics([NewTopic(topic.name, topic.partitions, 1, config=settings)])
    created[topic.name].result()

    fault = (
        f"topic {topic.name} exists with max.message.bytes=1048588 where it needs at least 16777216"
    )
    with pytest.raises(ConfigurationError, match=f"^{fault}$"):
        ensure(admin, [topic], -1)


def test_the_command_makes_all_that_the_plan_shows_and_verifies_them_later(admin, broker, capsys):
    plan = pipeline.plan()
    names = [topic.name for topic in (*raw_topics(plan), *own_topics(plan))] + [plan.stats]
    for state in ("created", "exists"):
        command("tests.kafka.pipelines.pops", broker, wait=True)
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert [(line[0], line[2]) for line in lines] == [(state, name) for name in names]
    assert set(names) <= partition_counts(admin).keys()


@pytest.mark.parametrize(
    ("partitions", "config", "warning"),
    [
        (5, {"retention.ms": "604800000"}, "whose timestamp is 7.0 days old"),
        (2, {"max.message.bytes": "1048588", "retention.ms": "-1"}, ""),
        (2, {"message.timestamp.type": "LogAppendTime"}, ""),
        (2, {"cleanup.policy": "compact"}, ""),
        (
            2,
            {"message.timestamp.type": "LogAppendTime", "retention.ms": "43200000"},
            "deletes records after 0.5 days",
        ),
    ],
)
def test_a_raw_topic_is_as_its_producers_made_it(  # D2
    admin, broker, monkeypatch, capsys, caplog, partitions, config, warning
):
    name = f"theirs-{abs(hash((partitions, *config.items())))}"
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(pipeline=build(name)))
    created = admin.create_topics([NewTopic(f"{name}-moves", partitions, 1, config=config)])
    created[f"{name}-moves"].result()
    command(name, broker)
    assert f"exists      {partitions}  {name}-moves\n" in capsys.readouterr().out
    assert [warning in line for line in caplog.messages] == ([True] if warning else [])


def test_a_raw_topic_must_be_there(admin):
    with pytest.raises(ConfigurationError, match="topic nowhere does not exist"):
        require(admin, ["nowhere"])
