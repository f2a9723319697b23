"""The cases of conformance, in ``cases``; its README says what they mean."""

from pathlib import Path

import pytest

from tidemark.conformance.case import Case, read_cases

FOLDER = Path(__file__).parent / "cases"


def all_cases() -> list[Case]:
    return read_cases(sorted(FOLDER.glob("*.json")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        cases = all_cases()
        metafunc.parametrize("case", cases, ids=[case.id for case in cases])
