"""A real broker for the whole session, on free ports, in a temporary folder."""

from collections.abc import Iterator

import pytest

from tidemark.embedded.broker import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a running broker."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running.address
