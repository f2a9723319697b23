"""These tests need a Docker engine.  Without one they fail; they are never skipped."""

import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.docker.support.databases import BINARIES, Postgres, running_postgres
from tests.docker.support.image import built_image
from tests.sinks.places import Place
from tidemark.embedded.broker import Broker

pytest.register_assert_rewrite(
    "tests.sinks.contract",
    "tests.sinks.databases.contract",
    "tests.sinks.databases.remaking",
    "tests.sinks.databases.existing",
)


@pytest.fixture(scope="session")
def engine() -> None:
    """Fail with what to do where no engine answers."""
    asked = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, f"these tests need a Docker engine: {asked.stderr.strip()}"


@pytest.fixture(scope="session")
def image(engine: None) -> str:
    """Name of the services' image, made of this tree."""
    return built_image()


@pytest.fixture(scope="session")
def replay_image(engine: None) -> str:
    """Name of the image with Java and Spark, made of this tree."""
    return built_image("replay")


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    if not BINARIES:
        request.getfixturevalue("engine")
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a running broker, without a container."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running.address


@pytest.fixture
def places(postgres: Postgres) -> Callable[[], Place]:
    return postgres.place


@pytest.fixture
def place(places: Callable[[], Place]) -> Place:
    return places()
