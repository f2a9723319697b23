"""A broker and a Spark session for all tests of the folder, and pipelines that ran live."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.kafka.pipelines import kinds as pipeline
from tests.kafka.support.short_lived_topics import topics_deleted
from tests.kafka.support.stack import Stack
from tests.kafka.support.visits import visits
from tests.spark.support.live import RECORDS, Example, caught_up
from tidemark.embedded.broker import Broker
from tidemark.runtime.ingest.flush import PipelineFlush
from tidemark.spark.read.ranges import as_json, resolve
from tidemark.spark.session import spark_session

# A JVM that lives for minutes compiles longer than it runs what it has compiled best.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


class Kinds(Stack):
    """Every window kind; ``first_third``: the ends of the log before most of the records."""

    first_third: str


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a running broker."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running.address


@pytest.fixture(autouse=True)
def _topics_are_deleted(request: pytest.FixtureRequest) -> Iterator[None]:
    with topics_deleted(request):
        yield


@pytest.fixture(scope="session")
def spark():
    """One session: a JVM takes longer to start than any of the tests."""
    with spark_session("local[2]", memory="1g") as session:
        session.conf.set("spark.sql.shuffle.partitions", "4")
        yield session


@pytest.fixture
def sessions(spark):
    """A function that yields the session of the folder, in place of a new one."""

    @contextmanager
    def started():
        yield spark

    return started


@pytest.fixture(scope="session")
def game(broker) -> Iterator[Example]:
    with Example(broker, "game") as stack:
        stack.play(RECORDS)
        yield stack


@pytest.fixture(scope="session")
def kinds(broker) -> Iterator[Kinds]:
    """Every window kind over two raw partitions: one falls silent, services are killed."""
    records = visits()
    third = len(records) // 3
    with Kinds(broker, "kinds", 2, module=pipeline) as stack:
        stack.start()
        stack.produce((n % 2, None, value) for n, value in enumerate(records[:third]))
        caught_up(stack)
        stack.first_third = as_json(resolve(stack.admin, stack.plan).ends)
        stack.kill("windowing", "sessions")
        stack.produce((0, None, value) for value in records[third : 2 * third])
        time.sleep(1.5)  # partition 1 is silent for longer than idle_after
        at_ms = json.loads(records[2 * third])["at"]
        assert PipelineFlush(stack.config, stack.admin, stack.plan, at_ms, 60).run()
        stack.start("windowing", "sessions")
        stack.produce((n % 2, None, value) for n, value in enumerate(records[2 * third :]))
        caught_up(stack)
        assert PipelineFlush(stack.config, stack.admin, stack.plan, None, 60).run()
        caught_up(stack)
        stack.stop()
        yield stack
