"""Ways to edit a record that is sent again."""

import io
import sys
from types import SimpleNamespace

import pytest

from tidemark.commands.letter_options import edit_of
from tidemark.errors import ConfigurationError
from tidemark.runtime.letters.attempts import Edit, EditError
from tidemark.runtime.letters.raw_records import RawRecord
from tidemark.runtime.letters.selection import StoredLetter
from tidemark.serde.letters import Letter

LETTER = StoredLetter(5, 0, Letter("why", "parse", "t", 0, 7))


def record(value: bytes | None = b'{"a":1}') -> RawRecord:
    return RawRecord("t", 0, 7, 0, b"k", value, None)


def changed(edit: Edit, value: bytes | None = b'{"a":1}') -> bytes | None:
    made = edit(record(value), LETTER)
    assert made is not None
    return made.value


def test_without_options_a_record_stays():
    assert edit_of([], None, None, None, editor=False)(record(), LETTER) == record()


def test_fields_are_set_and_the_key_replaced():
    made = edit_of(["a=2"], None, None, "new", editor=False)(record(), LETTER)
    assert made is not None
    assert (made.key, made.value) == (b"new", b'{"a":2}')
    with pytest.raises(EditError, match="no JSON object"):
        changed(edit_of(["a=2"], None, None, None, editor=False), b"pop!")


def test_the_value_is_that_of_a_file_or_of_stdin(tmp_path, monkeypatch):
    (tmp_path / "value").write_bytes(b"\xff\x00")
    assert changed(edit_of([], str(tmp_path / "value"), None, None, editor=False)) == b"\xff\x00"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"piped")))
    assert changed(edit_of([], "-", None, None, editor=False)) == b"piped"
    with pytest.raises(ConfigurationError, match="--value /no/file: No such file"):
        edit_of([], "/no/file", None, None, editor=False)


def test_a_function_returns_the_value_or_leaves_the_letter_alone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "letter_fixes.py").write_text(
        "number = 5\n"
        "def upper(value, letter):\n"
        "    return value.upper() + letter['reason'].encode()\n"
        "def text(value, letter): return 'é'\n"
        "def none(value, letter): return None\n"
        "def wrong(value, letter): return 5\n"
        "def fails(value, letter):\n"
        "    return {}['a']\n"
    )

    def through(name: str):
        return edit_of([], None, f"letter_fixes:{name}", None, editor=False)

    assert changed(through("upper")) == b'{"A":1}why'
    assert changed(through("text")) == "é".encode()
    assert through("none")(record(), LETTER) is None
    with pytest.raises(EditError, match="wrong returned a int, not bytes, str or None"):
        changed(through("wrong"))
    with pytest.raises(EditError, match=r"letter_fixes\.py:8: KeyError: 'a'"):
        changed(through("fails"))
    for name, words in (("absent", "AttributeError"), ("number", "is not a function")):
        with pytest.raises(ConfigurationError, match=words):
            through(name)
    with pytest.raises(ConfigurationError, match="--through nowhere:f: "):
        edit_of([], None, "nowhere:f", None, editor=False)


def test_an_editor_changes_the_text(tmp_path, monkeypatch):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/1/2/ "$2"\necho >> "$2"\n')
    editor.chmod(0o755)
    edit = edit_of([], None, None, None, editor=True)
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    with pytest.raises(ConfigurationError, match="--edit needs an editor: set EDITOR"):
        changed(edit)
    monkeypatch.setenv("EDITOR", f"{editor} -x")
    assert changed(edit) == b'{"a":2}\n'
    assert changed(edit, b"{}") == b"{}"
    with pytest.raises(EditError, match="the value is not UTF-8"):
        changed(edit, b"\xff")
    monkeypatch.setenv("EDITOR", "false")
    with pytest.raises(ConfigurationError, match="--edit: false ended with 1"):
        changed(edit)


def test_only_one_way_at_a_time():
    with pytest.raises(ConfigurationError, match="give one of --set, --value, --through"):
        edit_of(["a=1"], None, None, None, editor=True)
