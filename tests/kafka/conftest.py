"""A real broker for the whole session, on free ports, in a temporary folder."""

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.kafka.support.short_lived_topics import topics_deleted
from tidemark.embedded.broker import Broker
from tidemark.runtime.client import clients


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a running broker."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running.address


@pytest.fixture(scope="session", autouse=True)
def _admin_clients_stay() -> Iterator[None]:
    """Destroy no admin client of this process, not even at its end.

    A client whose broker is gone may wait without end for a thread of its own when it is destroyed
    (librdkafka issue 3954).  The garbage collector would do this in the middle of another test.
    """

    def staying(*args: Any, **settings: Any) -> AdminClient:
        client = AdminClient(*args, **settings)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        return client

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "AdminClient", staying)
        yield


@pytest.fixture(autouse=True)
def _topics_are_deleted(request: pytest.FixtureRequest) -> Iterator[None]:
    with topics_deleted(request):
        yield
