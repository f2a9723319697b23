"""Each command of docs/tutorial.md prints what the page shows."""

import re
from pathlib import Path

from tests.docs.sessions import matches, run_page

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
MODULES = ["pipeline", "wrong", "orders"]


def test_each_command_prints_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "shop"))
    run = 0
    for command, shown, found in run_page(PAGE, MODULES):
        assert matches(shown, found), f"$ {command}\n" + "\n".join(found)
        run += 1
    assert run == 19


def test_the_page_has_ten_steps():
    steps = re.findall(r"^## (\d+)\. ", PAGE, re.MULTILINE)
    assert steps == [str(n) for n in range(1, 11)]
