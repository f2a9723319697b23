"""The JSON documents in the lines of a file: one a line, or over several lines.

Each line is a record, if the first line that is not blank is a document or does not begin one.
Otherwise each document is a record, wherever it ends.  The elements of an array that is alone in a
file are records.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from tidemark.serde.json_records import with_texts

_SPACE = b" \t\r\n\x1e"  # with the separator of RFC 7464
_BETWEEN = _SPACE + b","
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"?|[{}\[\]]')
_OPENS = (b"{", b"[")
_LONGEST = 1 << 28

_elements = msgspec.json.Decoder(list[msgspec.Raw])


def json_documents(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the documents; ``lines``: without their ends."""
    blank: list[bytes] = []
    for first in lines:
        if first.strip(_SPACE):
            break
        blank.append(first)
    else:
        yield from blank
        return
    if _is_document(first):
        yield from _alone_or_lines(blank, first, lines)
    elif not starts_document(first):
        yield from chain(blank, (first,), lines)
    else:
        yield from _over_lines(blank, first, lines)


def is_unfinished_array(values: Sequence[bytes]) -> bool:
    """Return whether records of a file are the lines of one array of objects without its end.

    ``values``: the first and last records of ``json_documents``.
    """
    lines = list(filter(None, (value.strip(_SPACE) for value in values)))
    if not lines or lines[-1].endswith(b"]"):
        return False
    if len(lines) == 1:
        return lines[0].startswith(b"[") and not _is_document(lines[0])
    return lines[0] == b"[" and lines[1].startswith(b"{") and not _is_document(lines[1])


def starts_document(line: bytes) -> bool:
    """Return whether a line begins with an object or array."""
    return line.lstrip(_SPACE).startswith(_OPENS)


def _alone_or_lines(blank: list[bytes], first: bytes, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the elements of an array that is alone in the file, else the lines."""
    if not first.lstrip(_SPACE).startswith(b"["):
        yield from chain(blank, (first,), lines)
        return
    after: list[bytes] = []
    for line in lines:
        after.append(line)
        if line.strip(_SPACE):
            yield from chain(blank, (first,), after, lines)
            return
    yield from _array_elements(first)


def _over_lines(blank: list[bytes], first: bytes, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the documents of a file whose first line begins one, or its lines."""
    taken = [first]
    documents = _balanced(_kept(first, lines, taken))
    begin = next(documents)
    if not _is_document(begin):
        yield from chain(blank, taken, lines)
        return
    taken.clear()
    second = next(documents, None)
    if second is None:
        yield from _array_elements(begin)
        return
    yield from chain((begin, second), documents)


def _kept(first: bytes, lines: Iterator[bytes], taken: list[bytes]) -> Iterator[bytes]:
    """Yield lines; the list has those that may be needed again, until it is cleared."""
    yield first
    for line in lines:
        if taken:
            taken.append(line)
        yield line


def _balanced(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield texts with as many closing as opening brackets, and what is between them."""
    parts: list[bytes] = []
    depth = held = 0
    for line in lines:
        at = 0
        for token in _TOKEN.finditer(line):
            if token[0] in _OPENS:
                if depth == 0:
                    yield from _rest(line[at : token.start()])
                    at = token.start()
                depth += 1
            elif token[0] in (b"}", b"]") and depth:
                depth -= 1
                if depth == 0:
                    parts.append(line[at : token.end()])
                    yield b"\n".join(parts)
                    parts, at, held = [], token.end(), 0
        held += len(line)
        if depth and held < _LONGEST:
            parts.append(line[at:])
        else:
            yield from _rest(b"\n".join([*parts, line[at:]]))
            parts, depth, held = [], 0, 0
    yield from _rest(b"\n".join(parts))


def _rest(text: bytes) -> Iterator[bytes]:
    if text.strip(_BETWEEN):
        yield text


def _array_elements(text: bytes) -> list[bytes]:
    """Return the elements of an array of objects; another document is the only one."""
    if not text.lstrip(_SPACE).startswith(b"["):
        return [text]
    elements = list(map(bytes, _elements.decode(with_texts(text))))
    return elements if elements and all(map(starts_document, elements)) else [text]


def _is_document(text: bytes) -> bool:
    try:
        decoded: Any = msgspec.json.decode(with_texts(text).strip(_SPACE))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return isinstance(decoded, dict | list)
