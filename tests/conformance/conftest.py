"""Where the shared cases are: beside the repository, or where $TIDEMARK_CONFORMANCE says."""

import os
from pathlib import Path

import pytest

from tidemark.conformance.case import Case, read_cases

FOLDER = Path(
    os.environ.get("TIDEMARK_CONFORMANCE", Path(__file__).parents[3] / "shared" / "conformance")
)


def all_cases() -> list[Case]:
    return read_cases(sorted(FOLDER.glob("*.json")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        cases = all_cases()
        metafunc.parametrize("case", cases, ids=[case.id for case in cases])
