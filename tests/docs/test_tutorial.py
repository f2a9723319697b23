"""Each command of docs/tutorial.md prints what the page shows."""

import json
import re
from pathlib import Path

from tests.docs.sessions import matches, run_page
from tests.support.local_results import by_topic, finished
from tidemark.commands.peek import table_lines
from tidemark.language.load import load_pipeline
from tidemark.sinks.table import tables_of

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
    assert line_of_dev() in lines_of_panes("pipeline.py", "events.jsonl")


def line_of_dev():
    """Return the pane that the last step shows; it is of the pipeline as the steps have left it."""
    (line,) = re.findall(r"^visits-per-minute  .*", PAGE, re.MULTILINE)
    return line


def lines_of_panes(module, file):
    """Return the lines that `tidemark dev` prints for panes of the table of visits."""
    plan = load_pipeline(module).plan()
    records = Path(file).read_bytes().splitlines()
    panes = by_topic(finished(plan, {"visits": records}, every_pane=True)[1])
    table = next(each for each in tables_of(plan) if each.topic == "shop.visits-per-minute")
    values = []
    for pane in panes[table.topic]:
        pane.pop("end_of_input", None)  # only runs in one process have it
        values.append(json.dumps(pane).encode())
    return list(table_lines("visits-per-minute", table, values))


def test_the_page_has_ten_steps():
    steps = re.findall(r"^## (\d+)\. ", PAGE, re.MULTILINE)
    assert steps == [str(n) for n in range(1, 11)]
