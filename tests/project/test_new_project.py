"""A new project runs: its pipeline over its events, its tests, its containers."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from tidemark.commands.cli import app
from tidemark.errors import ConfigurationError, PipelineError
from tidemark.project.new_project import FILES, new_project

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return the folder of a new project, as the current one; its modules go with it."""
    folder = tmp_path / "shop"
    new_project(folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "pipeline", raising=False)
    yield folder
    sys.modules.pop("pipeline", None)


def test_init_says_what_it_wrote_and_what_to_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    app(["init", "web-shop"], standalone_mode=False)
    *files, _, enter, command = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in files] == [f"web-shop/{name}" for name in FILES]
    assert {path.name for path in (tmp_path / "web-shop").iterdir()} == set(FILES)
    assert enter == "cd web-shop"
    assert command.startswith("tidemark try pipeline.py --input events.jsonl ")


def test_the_pipeline_of_a_project_shows_each_fate_of_an_event(project, capsys):
    app(["try", "pipeline.py", "--input", "events.jsonl"], standalone_mode=False)
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    of_topic = {row["topic"]: row["value"] for row in rows}
    assert set(of_topic) == {
        "shop.visits-per-minute",
        "shop.visits-per-minute.late",
        "shop.dead-letters",
    }
    first = rows[0]["value"]
    assert (first["visits"], first["users"], first["timing"]) == (3, 3, "late")
    assert "visits: 8 records = 7 passed + 0 filtered + 1 dead + 0 blank" in printed.err


def test_the_tests_of_a_project_pass(project):
    tests = runpy.run_path("test_pipeline.py")
    names = [name for name in tests if name.startswith("test_")]
    assert len(names) == 2
    for name in names:
        tests[name]()


def test_the_containers_of_a_project_are_those_of_the_repository(project):
    """The broker and the database are set up alike, and each service has the pipeline."""
    theirs, ours = Path("docker-compose.yml").read_text(), (ROOT / "docker-compose.yml").read_text()
    for name in ("kafka", "postgres"):
        assert service(theirs, name) == service(ours, name)
    for name in ("topics", "ingest", "windowing", "sessions", "joins", "patterns", "sink"):
        assert "<<: *service" in service(theirs, name)
    assert theirs.count("/pipelines") == 1
    settings = {line for line in Path(".env").read_text().splitlines() if "=" in line}
    others = {line for line in (ROOT / ".env").read_text().splitlines() if "=" in line}
    assert settings - others == {"PIPELINE=pipeline"}


def service(text, name):
    """Return the lines of a service in a file of compose."""
    found = re.search(rf"^  {name}:\n((?:    .*\n|\n(?=    ))+)", text, re.MULTILINE)
    assert found, name
    return found[1]


def test_a_folder_with_files_stays_as_it_is(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="the folder has files already"):
        new_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_name_must_be_legal_for_topics(tmp_path):
    with pytest.raises(PipelineError, match="'my shop' is not a legal topic name"):
        new_project(tmp_path / "my shop")
    assert not (tmp_path / "my shop").exists()


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "shop").write_text("")
    with pytest.raises(ConfigurationError, match="File exists"):
        new_project(tmp_path / "shop")
