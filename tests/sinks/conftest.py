from collections.abc import Iterator

import pytest

from tests.sinks.places import PLACES, Place


@pytest.fixture(params=list(PLACES))
def place(request, tmp_path) -> Iterator[Place]:
    return PLACES[request.param](tmp_path)
