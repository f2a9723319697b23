"""Runs the files and commands of a page in order, and compares what the commands print.

A block ``python title="pipeline.py"`` is a file; with ``append`` its lines go to the end of that
file.  A block ``console`` has commands after ``$``, each with the lines that it prints.  ``...``
stands for any lines, and for the end of a line.
"""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tidemark.commands import cli

BLOCK = re.compile(
    r'^```(\w+)(?: title="([^"]+)")?( append)?\n(.*?)^```$', re.DOTALL | re.MULTILINE
)


def run_page(text: str, modules: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Run a page in the current folder; yield each command, what it shows, and what it printed.

    ``modules``: names of modules that files of the page define; each command loads them anew.
    """
    for kind, title, append, body in BLOCK.findall(text):
        if title:
            with Path(title).open("a" if append else "w") as file:
                file.write(f"\n{body}" if append else body)
        elif kind == "console":
            for command, shown in commands(body):
                for name in modules:
                    sys.modules.pop(name, None)
                yield command, shown, printed(command)


def commands(body: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of a block with the lines that they show."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def printed(command: str) -> list[str]:
    """Run a command, in this process where it is Python; return the lines that it prints."""
    words, _, target = command.partition(" > ")
    name, *arguments = words.split()
    if name == "cd":
        os.chdir(arguments[0])
        return []
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        if name == "tidemark":
            run_tidemark(arguments)
        elif name == "python" and arguments[0] != "-m":
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            shell = words.replace("python", sys.executable) if name == "python" else words
            done = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
            out.write(done.stdout + done.stderr)
    text = out.buffer.getvalue().decode()
    if target:
        Path(target).write_text(text)
        return []
    return text.splitlines()


def run_tidemark(arguments: list[str]) -> None:
    """Run the command line as its entry point does, with its one-line errors."""
    before, sys.argv = sys.argv, ["tidemark", *arguments]
    try:
        cli.main()
    except SystemExit:
        pass
    finally:
        sys.argv = before


def matches(shown: list[str], found: list[str]) -> bool:
    """Say whether the lines that a page shows are those found, with ``...`` for any."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n"
        for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in found)) is not None
