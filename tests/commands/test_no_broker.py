"""Commands that need a broker end within seconds if none answers, and name its address."""

import os

import pytest

from tests.forked import Files, Forked, tidemark

NOBODY = "127.0.0.1:1"
COMMANDS = {
    "reset": ["reset", "examples.game", "--yes"],
    "reset of an operator": ["reset", "examples.game", "--operator", "play-sessions", "--yes"],
    "topics": ["topics", "examples.game"],
    "tail": ["tail", "moves"],
    "replay": ["replay", "examples.game", "--output", "parquet:/nowhere"],
    "diff": ["diff", "examples.game"],
}


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """Status and stderr of each command; all run at once, most of the time is waiting."""
    logs = {name: tmp_path_factory.mktemp("command") / "log" for name in COMMANDS}
    runs = {
        name: Forked(
            ("tidemark", *words, "--bootstrap-server", NOBODY), os.environ, Files(logs[name])
        )
        for name, words in COMMANDS.items()
    }
    return {name: (run.wait(), logs[name].read_text()) for name, run in runs.items()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_broker_is_an_error_that_names_its_address(ends, command):  # B11
    status, shown = ends[command]
    assert status == 2
    first, *_, last = shown.splitlines()
    assert f"waiting for a broker at {NOBODY}" in first
    assert last.startswith("tidemark: gave up after 8 s waiting for a broker at 127.0.0.1:1: ")
    assert "refused" in last
    assert "KAFKA_BOOTSTRAP_SERVERS" in last
    assert "Traceback" not in shown


@pytest.mark.parametrize("option", ["--operator", "--service"])
def test_a_name_that_is_not_there_is_an_error_without_a_broker(option):
    run = tidemark("reset", "examples.game", option, "nobody", "--bootstrap-server", NOBODY)
    assert run.returncode == 2
    assert run.stderr.decode().startswith(f"tidemark: no {option[2:]} 'nobody'; there are ")
