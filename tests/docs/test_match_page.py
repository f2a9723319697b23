"""The pipelines of docs/how-to-match.md publish what the page shows."""

import re
from pathlib import Path
from typing import Any

import tidemark
from tidemark.commands.cli import app
from tidemark.testing import InProcess

PAGE = (Path(__file__).parents[2] / "docs" / "how-to-match.md").read_text()
FIRST, RISING, MINUTES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
MINUTE = 60_000


def house(more: str = "") -> Any:
    names: dict[str, Any] = {name: getattr(tidemark, name) for name in tidemark.__all__}
    exec(compile(FIRST + more, "docs/how-to-match.md", "exec"), names)
    return names["house"]


def temperatures(*celsius: float) -> list[dict[str, Any]]:
    return [
        {"room": "attic", "kind": "temperature", "at": minute * MINUTE, "celsius": each}
        for minute, each in enumerate(celsius)
    ]


def test_the_command_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    (session,) = re.findall(r"```\n(\$ cat .*?)```", PAGE, re.DOTALL)
    (records,) = re.findall(r"\$ cat readings.jsonl\n(.*?\n)\n", session, re.DOTALL)
    (shown,) = re.findall(r"\$ tidemark try .*?\n(.*)", session, re.DOTALL)
    page = tmp_path / "page_of_matches.py"
    page.write_text(FIRST)
    monkeypatch.chdir(tmp_path)
    Path("readings.jsonl").write_text(records)

    assert not app(["try", str(page), "--input", "readings.jsonl"], standalone_mode=False)
    printed = capsys.readouterr().out.splitlines()
    lines = [line for line in shown.splitlines() if line != "..."]
    assert lines == [line for line in printed if line in lines]


def test_a_condition_on_the_row_before():
    with InProcess(house(RISING)) as run:
        run.send("readings", *temperatures(31, 32, 20, 33, 33, 34))
        run.idle("readings", "3h")

        assert [row["to"] for row in run.published("rising")] == [33, 34]


def test_three_hot_minutes_in_a_row():
    with InProcess(house(MINUTES)) as run:
        run.send("readings", *temperatures(50, 51, 20, 52, 53, 54, 20))
        run.idle("readings", "3h")

        (found,) = run.published("hot-minutes")
        assert [row["step"] for row in found["_rows"]] == ["hot"] * 3
