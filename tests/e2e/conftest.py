"""A Docker engine is needed, and no test of this folder is left out where there is none."""

import subprocess

import pytest

from tests.e2e.image import built_image


@pytest.fixture(scope="session")
def engine() -> None:
    """Fail with what to do where no engine answers."""
    asked = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, f"these tests need a Docker engine: {asked.stderr.strip()}"


@pytest.fixture(scope="session")
def image(engine: None) -> str:
    """Name of the services' image, made of this tree."""
    return built_image()
