"""The files of a pipeline: which count, and that a change is loaded whole."""

import os
import sys

import pytest

from tidemark import PipelineError, load_pipeline
from tidemark.commands.dev.watched import WatchedFiles

MODULE = """from tidemark import Pipeline, bounded
from watched_parts import NAME

pipeline = Pipeline(NAME)
rows = pipeline.source("rows", schema={"at": int}, event_time="at", watermark=bounded("1s"))
rows.to("rows")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "watched_one.py").write_text(MODULE)
    (tmp_path / "watched_parts.py").write_text('NAME = "first"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield tmp_path
    for name in ("watched_one", "watched_parts"):
        sys.modules.pop(name, None)


def write(path, text, after_s):
    """Write a file at a time of its own, as disks may count in whole seconds."""
    path.write_text(text)
    os.utime(path, (after_s, after_s))


def test_a_change_of_an_imported_module_is_seen_once_and_loaded(folder):
    watched = WatchedFiles("watched_one.py")
    assert not watched.have_changed()
    write(folder / "watched_parts.py", 'NAME = "other"', 2_000_000_000)
    assert watched.have_changed()
    assert not watched.have_changed()
    watched.load_again()
    assert load_pipeline("watched_one.py").name == "other"
    assert not watched.have_changed()


def test_after_a_mistake_the_next_change_is_seen(folder):
    watched = WatchedFiles("watched_one.py")
    write(folder / "watched_one.py", MODULE + "\nrows.to(", 2_000_000_000)
    assert watched.have_changed()
    with pytest.raises(PipelineError, match=r"watched_one\.py:8: SyntaxError"):
        watched.load_again()
    write(folder / "watched_one.py", MODULE, 2_000_000_001)
    assert watched.have_changed()
    watched.load_again()
    assert load_pipeline("watched_one.py").name == "first"


def test_a_file_that_goes_and_comes_back_has_changed_twice(folder):
    watched = WatchedFiles("watched_one.py")
    (folder / "watched_parts.py").unlink()
    assert watched.have_changed()
    write(folder / "watched_parts.py", 'NAME = "third"', 2_000_000_000)
    assert watched.have_changed()
    watched.load_again()
    assert load_pipeline("watched_one.py").name == "third"
