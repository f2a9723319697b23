"""The pipelines of docs/how-to-match.md publish what the page shows."""

import re
from pathlib import Path
from typing import Any

import tidemark
from tidemark.testing import InProcess

PAGE = (Path(__file__).parents[2] / "docs" / "how-to-match.md").read_text()
FIRST, RISING, MINUTES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(SESSION,) = re.findall(r"```\n(\$ cat .*?)```", PAGE, re.DOTALL)
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


def test_the_command_prints_what_the_page_shows(shown_and_printed):
    shown, printed = shown_and_printed("matches", FIRST, SESSION)
    assert shown == printed


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
