"""A broker and a Spark session for all tests of the folder, and pipelines that ran live."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))

from tidemark.embedded.broker import Broker
from tidemark.spark.session import spark_session


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a running broker."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running.address


@pytest.fixture(scope="session")
def spark():
    """One session: a JVM takes longer to start than any of the tests."""
    with spark_session("local[2]", memory="1g") as session:
        yield session


@pytest.fixture
def sessions(spark):
    """What starts Spark, for those who ask for it."""

    @contextmanager
    def started():
        yield spark

    return started
