"""The pipelines of docs/how-to-top-ten.md publish what the page shows."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidemark.testing import InProcess

PAGE = (Path(__file__).parents[2] / "docs" / "how-to-top-ten.md").read_text()
FINAL, NOW = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(PLAYS,) = re.findall(r"\$ cat plays\.jsonl\n(.*?\n)\n", PAGE, re.DOTALL)
(SESSION,) = re.findall(r"```\n(\$ cat .*?)```", PAGE, re.DOTALL)


def test_the_command_prints_what_the_page_shows(shown_and_printed):
    shown, printed = shown_and_printed("songs", FINAL, SESSION)
    assert shown == printed


def test_each_play_publishes_what_the_page_shows():
    names: dict[str, Any] = {}
    exec(compile(FINAL + NOW, "docs/how-to-top-ten.md", "exec"), names)
    table = re.findall(r"^\| (\d) \|[^|]*\|([^|]*)\|([^|]*)\|$", PAGE, re.MULTILINE)
    shown = {int(play): (now.strip(), final.strip()) for play, now, final in table}
    assert set(shown) == {6, 7, 8, 9}
    with InProcess(names["radio"]) as run:
        before: tuple[list[Any], list[Any]] = ([], [])
        for number, play in enumerate(PLAYS.splitlines(), 1):
            run.send("plays", json.loads(play))
            after = (run.published("top-songs-now"), run.published("top-songs"))
            panes, rows = (list_[len(known) :] for list_, known in zip(after, before, strict=True))
            found = ("".join(ranking(pane) for pane in panes), row_ranking(rows))
            assert found == shown.get(number, ("", ""))
            before = after


def ranking(pane: Mapping[str, Any]) -> str:
    """Return the songs of a pane with their plays, as the page writes them."""
    return ", ".join(f"{item['value']} {item['by']}" for item in pane["top"])


def row_ranking(rows: list[dict[str, Any]]) -> str:
    """Return the songs of rows with their plays, as the page writes them."""
    in_order = sorted(rows, key=lambda row: row["rank"])
    return ", ".join(f"{row['song']} {row['plays']}" for row in in_order)
