"""The records in the lines of a file of delimited text (docs/formats.md, "Files").

A line that has the names of the columns is a header, not a record.  A quoted field may have line
ends.  If a file begins with ``#``, all lines that do are comments, as in Zeek's and W3C's logs.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence

from tidemark.serde.formats.csv_values import csv_dialect
from tidemark.serde.formats.source_format import CsvFormat

_COMMENT = b"#"
_LONGEST = 1 << 20


def table_records(lines: Iterator[bytes], format_: CsvFormat) -> Iterator[bytes]:
    """Yield the rows; with ``columns=None`` each one after the header, which is the first line."""
    rows = _whole_rows(lines, format_)
    first = next(rows, None)
    if first is None:
        return
    if format_.columns is None:
        for row in rows:
            yield b"%s\n%s" % (first, row)
        return
    is_header = distinct_names(fields_of(first, format_)) == list(format_.columns)
    has_comments = first.startswith(_COMMENT) and not is_header
    if not is_header and not has_comments:
        yield first
    for row in rows:
        if not (has_comments and row.startswith(_COMMENT)):
            yield row


def fields_of(row: bytes, format_: CsvFormat) -> list[str]:
    """Return the fields of a row; an empty list if it cannot be read."""
    text = row.decode(errors="replace").removesuffix("\r")
    try:
        return next(_reader(text, format_), [])
    except csv.Error:
        return []


def distinct_names(fields: Sequence[str]) -> list[str]:
    """Return the names of columns that a header gives: each column has a name of its own."""
    names: list[str] = []
    seen: Counter[str] = Counter()
    for number, field in enumerate(fields, 1):
        name = field.strip() or f"column_{number}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return names


def _whole_rows(lines: Iterator[bytes], format_: CsvFormat) -> Iterator[bytes]:
    """Yield lines, joined where a quoted field has line ends."""
    quote = None if format_.quote is None else format_.quote.encode()
    for line in lines:
        if quote is None or quote not in line or not _is_open(line, format_):
            yield line
            continue
        parts, held = [line], len(line)
        for more in lines:
            parts.append(more)
            held += len(more)
            if held > _LONGEST or (quote in more and not _is_open(b"\n".join(parts), format_)):
                break
        yield b"\n".join(parts)


def _is_open(text: bytes, format_: CsvFormat) -> bool:
    """Return whether a text ends inside a quoted field."""
    try:
        list(_reader(text.decode(errors="replace"), format_))
    except csv.Error as error:
        return "unexpected end" in str(error)
    return False


def _reader(text: str, format_: CsvFormat) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, ""), **csv_dialect(format_.delimiter, format_.quote))
