"""The pipelines of docs/formats.md can be built as they stand."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tidemark import Pipeline
from tidemark.core.operators.ports import PANES
from tidemark.local.run import LocalRun

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("code", CODE)
def test_the_pipelines_of_the_page_can_be_built(code):
    names: dict[str, Any] = {}
    exec(compile(code, "docs/formats.md", "exec"), names)
    pipelines = [value for value in names.values() if isinstance(value, Pipeline)]
    assert [each.plan().pipeline for each in pipelines]


def test_the_page_has_an_example_of_each_kind():
    assert len(CODE) == 7


def test_rows_without_names_have_columns():
    names: dict[str, Any] = {}
    exec(next(code for code in CODE if "opensky" in code), names)
    rows = [
        ["3c6444", "DLH9LF", "Germany", 1772366390, 1772366400, 6.15, 50.1, 900.5],
        ["4b1815", None, "Germany", None, 1772366400, None, None, None],
    ]
    records = [{"time": 1772366400, "states": rows}, {"time": 1772366401, "states": [["3c6444"]]}]

    ran = LocalRun(names["sky"].plan())
    list(ran.run({"opensky": [json.dumps(each).encode() for each in records]}))

    panes = ran.published["highest"].every(PANES)
    assert panes.select("country", "highest").rows() == [("Germany", 900.5)]
    assert len(ran.dead_letters) == 1
