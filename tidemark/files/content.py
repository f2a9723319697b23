"""The content of a file or of stdin, decompressed."""

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from tidemark.errors import ConfigurationError
from tidemark.serde.formats.text_encoding import BOM, UTF_16_BOMS

STDIN = "-"

_COMPRESSED: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_UNREADABLE = {
    b"PK\x03\x04": "a zip archive or a spreadsheet: unzip it, or save the sheet as CSV",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: zstd -dc FILE | tidemark ... -",
    b"PAR1": "Parquet: python -c \"import polars as pl; pl.read_parquet('FILE')"
    ".write_ndjson('FILE.jsonl')\"",
    b"SQLite format 3": "a database of SQLite: export its tables as CSV",
}
_FAULTS = (OSError, EOFError, zlib.error, lzma.LZMAError)


@contextmanager
def open_content(path: str, what: str) -> Iterator[BinaryIO]:
    """Return a context with the bytes of a file, without compression and byte order mark.

    Faults of the file are errors inside the context too, where it is read.

    ``path``: of the file, or ``STDIN``.  ``what``: names the argument in errors.

    Raises:
        ConfigurationError: the file cannot be read, or its bytes are in a form that is not read.
    """
    try:
        with _opened(path) as file:
            content = _decompressed(file)
            head = content.peek(16)
            _require_readable(head, what)
            if head.startswith(BOM):
                content.read(len(BOM))
            yield cast(BinaryIO, content)
    except _FAULTS as error:
        reason = getattr(error, "strerror", None) or f"damaged: {error}"
        raise ConfigurationError(f"{what}: {reason}") from None


@contextmanager
def _opened(path: str) -> Iterator[io.BufferedReader]:
    if path == STDIN:
        yield cast(io.BufferedReader, sys.stdin.buffer)
        return
    with open(path, "rb") as file:
        yield file


def _decompressed(file: io.BufferedReader) -> io.BufferedReader:
    """Return what a file holds after all compressions, which its first bytes name."""
    head = file.peek(8)
    for magic, reader in _COMPRESSED.items():
        if head.startswith(magic):
            return _decompressed(io.BufferedReader(reader(file)))
    return file


def _require_readable(head: bytes, what: str) -> None:
    if head.startswith(UTF_16_BOMS):
        raise ConfigurationError(
            f"{what}: the text is UTF-16; records are UTF-8: "
            "iconv -f UTF-16 -t UTF-8 FILE | tidemark ... -"
        )
    for magic, remedy in _UNREADABLE.items():
        if head.startswith(magic):
            raise ConfigurationError(f"{what}: the content is {remedy}")
