"""Folders of local state are claimed, left behind by crashes, and cleaned up by who comes next."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tidemark.errors import ConfigurationError
from tidemark.runtime.backends.folder import claimed_for_blocks

NOBODY = 65_534


def folders(root: Path) -> list[str]:
    return sorted(found.name for found in root.glob("blocks-*"))


def test_every_process_has_a_folder_of_its_own(tmp_path):
    claims = [claimed_for_blocks(tmp_path) for _ in range(2)]

    assert len({claim.folder for claim in claims}) == 2
    assert all(claim.folder.is_dir() for claim in claims)


def test_folders_of_processes_that_were_killed_are_deleted(tmp_path):
    claim = (
        "import pathlib, sys; from tidemark.runtime.backends.folder import claimed_for_blocks; "
        f"claim = claimed_for_blocks(pathlib.Path({str(tmp_path)!r})); "
        "(claim.folder / 'block').write_text('x'); print('.', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", claim], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()
    first = folders(tmp_path)
    mine = claimed_for_blocks(tmp_path)
    assert set(first) < set(folders(tmp_path)), "a living process lost its folder"

    other.kill()
    other.communicate()
    mine.release()
    last = claimed_for_blocks(tmp_path)
    assert folders(tmp_path) == [last.folder.name, f"{last.folder.name}.lock"]


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_stops_the_start_with_the_setting_and_what_to_do(
    tmp_path, where
):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ConfigurationError) as failed:
        claimed_for_blocks(tmp_path / where)
    assert str(failed.value).startswith(f"TIDEMARK_STATE_DIR={tmp_path / where}: ")
    assert "TIDEMARK_STATE_BACKEND=memory" in str(failed.value)


def test_a_folder_without_permission_stops_the_start():
    with TemporaryDirectory() as root:
        Path(root).chmod(0o555)
        refused = pytest.raises(ConfigurationError, match="Permission denied")
        with nobody_special(), refused:
            claimed_for_blocks(Path(root) / "state")
        Path(root).chmod(0o755)  # or it could not be deleted


@contextmanager
def nobody_special() -> Iterator[None]:
    """Be another user meanwhile where this is root, who may write anywhere."""
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
