"""The delimiter, quotes and names of delimited text."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence

from tidemark.files.table_lines import distinct_names
from tidemark.infer.observed import NULL, TEXT, spelled
from tidemark.serde.formats.csv_values import csv_dialect
from tidemark.serde.formats.source_format import CsvFormat

_DELIMITERS = "\t,;|"
_SAME_WIDTH = 0.9
_LINES = 1_000
_PROSE = 0.34
_NAME = re.compile(r"[^\W\d][\w .,:/()%#°&$+@\[\]-]{0,59}|")
_FIELDS = re.compile(r"#\s*fields:?\s", re.IGNORECASE)
_TIME = re.compile(r"[0-9][0-9:/.TZ +,-]{3,}")


def delimited(texts: Sequence[str], *, is_file: bool = True) -> CsvFormat | None:
    """Return the format of lines or records if they are delimited text, else None.

    ``is_file``: texts are lines of which the first may be a header; else each is a record.
    """
    head = [text.removesuffix("\r") for text in texts[:_LINES]]
    if not is_file:
        return _of_records(head)
    comments = [line for line in head if line.startswith("#")] if _has_comments(head) else []
    lines = [line for line in head if line not in comments]
    named = next((line for line in comments if _FIELDS.match(line)), None)
    for delimiter, quote, rows in _readings(lines, " " * (named is not None)):
        width = len(rows[-1])
        if named is not None:
            names = _FIELDS.sub("", named).split(delimiter)
        elif comments and len(found := comments[-1].lstrip("# ").split(delimiter)) == width:
            names = found
        else:
            is_header = _is_header(rows)
            names = distinct_names(rows[0]) if is_header else _numbered(width)
            if len(rows) < 2 or not (is_header or _is_table(rows)):
                continue
        if len(names) == width and len({*names}) == width:
            return CsvFormat(tuple(names), delimiter, quote)
    return None


def _has_comments(lines: Sequence[str]) -> bool:
    return (len(lines) > 1 and lines[0].startswith("#") and not lines[1].startswith("#")) or (
        len(lines) > 2 and lines[0].startswith("#") and lines[1].startswith("#")
    )


def _of_records(texts: Sequence[str]) -> CsvFormat | None:
    """Return the format of records, which have a header only if they have several lines."""
    firsts = {text.split("\n", 1)[0] for text in texts if "\n" in text.strip("\n")}
    has_header = len(firsts) == 1 and all("\n" in text for text in texts)
    lines = [line for text in texts for line in text.split("\n")[has_header:] if line]
    for delimiter, quote, rows in _readings(lines, ""):
        if has_header and len(firsts.pop().split(delimiter)) == len(rows[-1]):
            return CsvFormat(None, delimiter, quote)
        if _is_table(rows):
            return CsvFormat(tuple(_numbered(len(rows[-1]))), delimiter, quote)
    return None


def _readings(lines: Sequence[str], more: str) -> list[tuple[str, str | None, list[list[str]]]]:
    """Return delimiters, quotes and rows that most lines fit, those of the widest rows first."""
    found = []
    for delimiter in _DELIMITERS + more:
        for quote in ('"', None):
            rows = _rows(lines, delimiter, quote)
            if rows is None:
                continue
            width, count = Counter(map(len, rows)).most_common(1)[0]
            if width > 1 and count >= _SAME_WIDTH * len(rows):
                same = [row for row in rows if len(row) == width]
                found.append((width, (delimiter, quote, same)))
            break
    return [each for _, each in sorted(found, key=lambda each: -each[0])]


def _rows(lines: Sequence[str], delimiter: str, quote: str | None) -> list[list[str]] | None:
    """Return the fields of lines; None if all lines are blank or a quote is misplaced."""
    text = io.StringIO("\n".join(lines), "")
    rows: list[list[str]] = []
    try:
        rows.extend(row for row in csv.reader(text, **csv_dialect(delimiter, quote)) if row)
    except csv.Error as error:
        if "unexpected end" not in str(error):  # the last row of a sample may be cut
            return None
    return rows or None


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has names: no numbers, no times, no values of other rows."""
    first = rows[0]
    return (
        sum(map(bool, first)) >= len(first) - 1
        and all(spelled(name) in (TEXT, NULL) and _NAME.fullmatch(name.strip()) for name in first)
        and not any(name and name == row[at] for row in rows[1:] for at, name in enumerate(first))
    )


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether rows without a header are likely rows: not texts with commas in each."""
    if len(rows[0]) == 2:
        return all(spelled(text) != TEXT or _TIME.fullmatch(text) for row in rows for text in row)
    prose = sum(" " in text.strip() and not _TIME.fullmatch(text) for row in rows for text in row)
    return prose < _PROSE * len(rows) * len(rows[0])


def _numbered(width: int) -> list[str]:
    return [f"column_{number}" for number in range(1, width + 1)]
