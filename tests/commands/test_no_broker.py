"""Commands that need a broker end within seconds if none answers, and name its address."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S

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
def ends():
    """Status and stderr of each command; all run at once, most of the time is waiting."""
    runs = {
        name: subprocess.Popen(
            [sys.executable, "-m", "tidemark", *words, "--bootstrap-server", NOBODY],
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, words in COMMANDS.items()
    }
    shown = {name: run.communicate(timeout=PATIENCE_S)[1] for name, run in runs.items()}
    return {name: (run.returncode, shown[name]) for name, run in runs.items()}


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
    words = ["reset", "examples.game", option, "nobody", "--bootstrap-server", NOBODY]
    run = subprocess.run(
        [sys.executable, "-m", "tidemark", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert run.returncode == 2
    assert run.stderr.startswith(f"tidemark: no {option[2:]} 'nobody'; there are ")
