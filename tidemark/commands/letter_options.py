"""Options of ``tidemark dead-letters``: which letters, and how a record is edited."""

import importlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer

from tidemark.errors import ConfigurationError
from tidemark.language.load import import_from_here
from tidemark.language.mistake import mistake
from tidemark.runtime.letters.attempts import Edit, EditError
from tidemark.runtime.letters.edits import with_fields
from tidemark.runtime.letters.raw_records import RawRecord
from tidemark.runtime.letters.selection import (
    Selection,
    StoredLetter,
    edited,
    moment_ms,
    offset_range,
    require_names,
)
from tidemark.runtime.wall_clock import now_ms

Reason = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only letters whose reason contains this text.")
]
Stage = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Only of this stage: parse, event time, filter, an output."),
]
Topic = Annotated[str | None, typer.Option(help="Only of this raw topic; of panes, of results.")]
Key = Annotated[str | None, typer.Option(metavar="TEXT", help="Only of records with this key.")]
Offsets = Annotated[
    str | None,
    typer.Option(metavar="RANGE", help="Only of records at these offsets: 7, 7..9, 7.. or ..9."),
]
Since = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="Only letters written since: 2h, or 2026-03-01T12:00:00Z."),
]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Only letters written before.")]

_EDITOR_VARIABLES = ("VISUAL", "EDITOR")
_Function = Callable[[bytes | None, dict[str, object]], object]


def selection(
    names: list[str],
    reason: str | None = None,
    stage: str | None = None,
    topic: str | None = None,
    key: str | None = None,
    offsets: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Selection:
    """Return the letters that the options select.

    Raises:
        ConfigurationError: an option is not valid.
    """
    ids, places = require_names(names)
    now = now_ms()
    return Selection(
        ids,
        places,
        reason,
        stage,
        topic,
        key,
        offset_range(offsets),
        moment_ms(since, "--since", now),
        moment_ms(until, "--until", now),
    )


def edit_of(
    settings: list[str], value: str | None, through: str | None, key: str | None, *, editor: bool
) -> Edit:
    """Return what changes a record; without options it changes nothing.

    Raises:
        ConfigurationError: several ways at once, or one that is not valid.
    """
    if sum([bool(settings), value is not None, through is not None, editor]) > 1:
        raise ConfigurationError("give one of --set, --value, --through and --edit")
    change: Edit = _unchanged
    if settings:
        change = _setting(settings)
    elif value is not None:
        change = _replacing(value)
    elif through is not None:
        change = _through(through)
    elif editor:
        change = _in_editor
    return change if key is None else _with_key(change, key.encode())


def _unchanged(record: RawRecord, _stored: StoredLetter) -> RawRecord:
    return record


def _setting(settings: list[str]) -> Edit:
    fields = edited(settings)

    def change(record: RawRecord, _stored: StoredLetter) -> RawRecord:
        try:
            return replace(record, value=with_fields(record.value, fields))
        except ConfigurationError as error:
            raise EditError(str(error)) from None

    return change


def _replacing(file: str) -> Edit:
    try:
        value = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"--value {file}: {error.strerror}") from None
    return lambda record, _stored: replace(record, value=value)


def _with_key(change: Edit, key: bytes) -> Edit:
    def changed(record: RawRecord, stored: StoredLetter) -> RawRecord | None:
        made = change(record, stored)
        return None if made is None else replace(made, key=key)

    return changed


def _through(path: str) -> Edit:
    function = _function(path)

    def change(record: RawRecord, stored: StoredLetter) -> RawRecord | None:
        letter = msgspec.to_builtins(stored.letter)
        try:
            made = function(record.value, letter)
        except Exception as error:  # noqa: BLE001 - a function of a user may raise anything
            raise EditError(f"{path}: {mistake(error)}") from None
        if made is None:
            return None
        if isinstance(made, str):
            made = made.encode()
        if not isinstance(made, bytes):
            raise EditError(f"{path} returned a {type(made).__name__}, not bytes, str or None")
        return replace(record, value=made)

    return change


def _function(path: str) -> _Function:
    """Return the function ``module:function``.

    Raises:
        ConfigurationError: the module does not load, or has no such function.
    """
    name, _, attribute = path.partition(":")
    import_from_here()
    try:
        function: _Function = getattr(importlib.import_module(name), attribute)
    except Exception as error:  # noqa: BLE001 - a module of a user may raise anything
        raise ConfigurationError(f"--through {path}: {mistake(error)}") from None
    if not callable(function):
        raise ConfigurationError(f"--through {path}: {attribute} is not a function")
    return function


def _in_editor(record: RawRecord, stored: StoredLetter) -> RawRecord:
    """Return a record with the value that the user's editor leaves behind.

    Raises:
        ConfigurationError: no editor is set, or it failed.
        EditError: the value is not text.
    """
    command = next(filter(None, map(os.environ.get, _EDITOR_VARIABLES)), None)
    if command is None:
        raise ConfigurationError("--edit needs an editor: set EDITOR, or use --set or --value")
    try:
        text = (record.value or b"").decode()
    except UnicodeDecodeError:
        raise EditError("the value is not UTF-8: give another one with --value") from None
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"letter-{stored.id}.json"
        file.write_text(text, encoding="utf-8", newline="")
        ended = subprocess.run([*shlex.split(command), str(file)], check=False)
        if ended.returncode:
            raise ConfigurationError(f"--edit: {command} ended with {ended.returncode}")
        made = file.read_bytes()
    before = text.encode()
    if made == before + b"\n":  # many editors end the last line
        made = before
    return replace(record, value=made)
