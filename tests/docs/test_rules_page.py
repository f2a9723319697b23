"""The pipeline of docs/rules.md publishes what the page shows, and takes what its tables name."""

import re
from pathlib import Path

import polars as pl
import pytest

from tidemark.serde.rules.condition_text import condition_of

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()
(MODULE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(SESSION,) = re.findall(r"```\n(\$ cat .*?)```", PAGE, re.DOTALL)


def test_the_command_prints_what_the_page_shows(shown_and_printed):
    shown, printed = shown_and_printed("rules", MODULE, SESSION)
    assert len(shown) == 2
    assert shown == printed


@pytest.mark.parametrize(
    "condition",
    ["10 < celsius <= 80", 'kind in ["smoke", "fire"]', "is_null(celsius)", 'col("my column") > 3'],
)
def test_forms_of_the_page_are_conditions(condition):
    assert f"`{condition.removesuffix(' > 3')}`" in PAGE
    columns = {"celsius": pl.Float64(), "kind": pl.String(), "my column": pl.Int64()}
    assert condition_of(condition, columns) is not None
