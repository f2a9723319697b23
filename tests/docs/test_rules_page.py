"""The pipeline of docs/rules.md publishes what the page shows, and takes what its tables name."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tidemark.commands.cli import app
from tidemark.serde.rules.condition_text import condition_of

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()
(MODULE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(SESSION,) = re.findall(r"```\n(\$ cat .*?)```", PAGE, re.DOTALL)


def test_the_command_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    files = dict(re.findall(r"\$ cat (\w+\.\w+)\n(.*?\n)\n", SESSION, re.DOTALL))
    (shown,) = re.findall(r"\$ tidemark try .*?\n(.*)", SESSION, re.DOTALL)
    page = tmp_path / "page_of_rules.py"  # a module of one process has a name of its own
    page.write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    arguments: list[Any] = ["try", str(page)]
    for name, records in files.items():
        Path(name).write_text(records)
        arguments += ["--input", f"{name.partition('.')[0]}={name}"]

    assert not app(arguments, standalone_mode=False)
    printed = capsys.readouterr().out.splitlines()
    lines = [line for line in shown.splitlines() if line != "..."]
    assert len(lines) == 2
    assert lines == [line for line in printed if line in lines]


@pytest.mark.parametrize(
    "condition",
    ["10 < celsius <= 80", 'kind in ["smoke", "fire"]', "is_null(celsius)", 'col("my column") > 3'],
)
def test_forms_of_the_page_are_conditions(condition):
    assert f"`{condition.removesuffix(' > 3')}`" in PAGE
    columns = {"celsius": pl.Float64(), "kind": pl.String(), "my column": pl.Int64()}
    assert condition_of(condition, columns) is not None
