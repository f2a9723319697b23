"""Sessions of pages: files that a shell shows, and what ``tidemark try`` prints of them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.commands.cli import app


@pytest.fixture
def shown_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, str, str], tuple[list[str], list[str]]]:
    """Return what runs the command of a session, in a folder with its files.

    It takes a name for the module, the module, and the session.  It returns the lines that the
    session shows, without ``...``, and those of them that the command prints, in its order.
    """

    def run(name: str, module: str, session: str) -> tuple[list[str], list[str]]:
        for file, text in re.findall(r"\$ cat (\w+\.\w+)\n(.*?\n)\n", session, re.DOTALL):
            (tmp_path / file).write_text(text)
        (options, shown) = re.findall(r"\$ tidemark try \S+ (.*?)\n(.*)", session, re.DOTALL)[0]
        page = tmp_path / f"page_of_{name}.py"  # a module of one process has a name of its own
        page.write_text(module)
        monkeypatch.chdir(tmp_path)
        assert not app(["try", str(page), *options.split()], standalone_mode=False)
        printed = capsys.readouterr()
        lines = [line for line in shown.splitlines() if line != "..."]
        return lines, [line for line in (printed.out + printed.err).splitlines() if line in lines]

    return run
