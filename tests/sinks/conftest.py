from collections.abc import Callable
from itertools import count

import pytest

from tests.sinks.places import PLACES, Place

pytest.register_assert_rewrite(
    "tests.sinks.contract",
    "tests.sinks.databases.contract",
    "tests.sinks.databases.remaking",
    "tests.sinks.databases.existing",
)


@pytest.fixture(params=list(PLACES))
def places(request, tmp_path) -> Callable[[], Place]:
    """Make a place in a folder of its own, each time."""
    numbers = count()

    def made() -> Place:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return PLACES[request.param](folder)

    return made


@pytest.fixture
def place(places) -> Place:
    made: Place = places()
    return made
