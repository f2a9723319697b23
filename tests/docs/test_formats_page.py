"""The pipelines of docs/formats.md can be built as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest

from tidemark import Pipeline

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("code", CODE)
def test_the_pipelines_of_the_page_can_be_built(code):
    names: dict[str, Any] = {}
    exec(compile(code, "docs/formats.md", "exec"), names)
    pipelines = [value for value in names.values() if isinstance(value, Pipeline)]
    assert [each.plan().pipeline for each in pipelines]


def test_the_page_has_an_example_of_each_kind():
    assert len(CODE) == 6
