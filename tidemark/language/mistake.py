"""Where in the user's code a mistake is: ``game.py:12: tumbling(size): '5x' is not a duration``."""

import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidemark.errors import TidemarkError

_TIDEMARK = Path(__file__).parents[1]
_STANDARD = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
_INSTALLED = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}


def mistake(error: Exception) -> str:
    """Return an error of a pipeline module as one line: file, line, and what is wrong."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
    place = _place(error)
    return f"{place}: {_text(error)}" if place else _text(error)


def _text(error: Exception) -> str:
    if isinstance(error, TidemarkError):
        return str(error)
    lines = traceback.TracebackException.from_exception(error).format_exception_only()
    return " ".join("".join(lines).split())


def caller() -> str:
    """Return file and line of the user's call that runs now, empty without one."""
    return _innermost(list(_stack())[::-1]) or ""


def _stack() -> Iterator[tuple[str, int]]:
    """Yield file and line of the calls that run now, the innermost first."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame.f_code.co_filename, frame.f_lineno


def _place(error: Exception) -> str | None:
    """Return file and line of the innermost call that is the user's own code."""
    return _innermost(
        [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    )


def _innermost(frames: Sequence[tuple[str, int]]) -> str | None:
    """Return the last place that is the user's own code; ``frames``: file and line, in order.

    An installed package counts only if no other frame is the user's: a pipeline may be installed.
    """
    shown = [frame for frame in frames if not frame[0].startswith("<")]
    for installed in (False, True):
        for filename, line in reversed(shown):
            if _is_users(Path(filename), installed=installed):
                return f"{_shown(filename)}:{line}"
    return None


def _is_users(file: Path, *, installed: bool) -> bool:
    """Return whether a file is the user's; files of installed packages are as ``installed`` says.

    The folder of installed packages may be inside that of the standard library.
    """
    if file.is_relative_to(_TIDEMARK):
        return False
    if any(file.is_relative_to(folder) for folder in _INSTALLED):
        return installed
    return not any(file.is_relative_to(folder) for folder in _STANDARD)


def _shown(filename: str) -> str:
    """Return a path relative to the working directory, if it is below."""
    file = Path(filename)
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)
