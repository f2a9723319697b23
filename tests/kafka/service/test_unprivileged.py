"""Services run as a user who owns nothing, from code that he may read and not write."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.kafka.pipelines import nobodys
from tests.kafka.support.stack import ROOT, Stack

T = 1_700_000_000_000


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that any user can reach."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def users(pid: int) -> set[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {int(word) for line in lines if line.startswith("Uid:") for word in line.split()[1:]}


def files() -> set[Path]:
    """Return the files of the code, and those that services leave where nothing is set."""
    found = {path for part in ("tidemark", "services", "var") for path in (ROOT / part).rglob("*")}
    return {path for path in found if "__pycache__" not in path.parts}


def test_a_pipeline_needs_no_rights_on_its_machine(broker, folder):
    """Ingest and sessions keep nothing on disk; windowing does, in the one folder it is given."""
    state = folder / "state"
    state.mkdir()
    state.chmod(0o777)
    disk = {"TIDEMARK_STATE_BACKEND": "rocksdb", "TIDEMARK_STATE_DIR": str(state)}
    before = files()
    with Stack(broker, "unprivileged", module=nobodys, TEST_NOBODY="yes") as stack:
        stack.start("ingest", "sessions")
        stack.start("windowing", **disk)
        for at in (0, 1_000, 30_000):
            stack.move("a", T + at)
        stack.await_results("pops", lambda panes: len(panes) == 1)
        stack.await_results("sessions", lambda panes: len(panes) == 1)
        expected = {os.geteuid() or nobodys.NOBODY}
        assert all(users(process.pid) == expected for process in stack.processes.values())
        assert set(stack.stop().values()) == {0}
        assert [pane["pops"] for pane in stack.results("pops")] == [2]
    assert files() == before
    assert any((state / "changelogs").iterdir())


def test_a_folder_of_state_that_may_not_be_written_is_named(broker, folder):
    folder.chmod(0o555)
    env: dict[str, Any] = {"TEST_NOBODY": "yes", "TIDEMARK_STATE_BACKEND": "rocksdb"}
    with Stack(broker, "unwritten", module=nobodys, **env) as stack:
        stack.start("windowing", TIDEMARK_STATE_DIR=str(folder / "state"))
        assert stack.process("windowing").wait() == 2
        (line,) = [text for text in stack.log("windowing").splitlines() if " ERROR " in text]
    folder.chmod(0o755)
    assert f"TIDEMARK_STATE_DIR={folder / 'state'}: " in line
    assert "Permission denied" in line
