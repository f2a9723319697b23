"""Fixtures of tests that take both ways through the client: natively, and by objects."""

import pytest

from tidemark.plan.topics import MAX_MESSAGE_BYTES, Topic
from tidemark.runtime.client import clients, topics
from tidemark.runtime.config import Config
from tidemark.runtime.messages.librdkafka import clients as functions


@pytest.fixture
def config(broker: str) -> Config:
    return Config(bootstrap_servers=broker)


@pytest.fixture(params=("native", "objects"))
def way(request: pytest.FixtureRequest) -> str:
    if request.param == "native" and functions() is None:
        pytest.skip("the native library is not built")
    return str(request.param)


@pytest.fixture
def topic(config: Config, request: pytest.FixtureRequest) -> str:
    """Return a topic of the test with four partitions."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    limits = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
    topics.ensure(clients.admin(config), [Topic(name, 4, limits)], -1)
    return name
