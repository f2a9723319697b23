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

_DELIMITERS, _BLANK = "\t,;|", " "
_SAME_WIDTH, _SAME_WIDTH_NAMED = 0.9, 0.5
_LINES = 1_000
_PROSE = 0.34
_NAME = re.compile(r"[^\W\d][\w .,:/()%#°&$+@\[\]-]{0,59}|")
_FIELDS = re.compile(r"#\s*fields:?\s", re.IGNORECASE)
_TIME = re.compile(r"[0-9][0-9:/.TZ +,-]{3,}")

_MESSAGE = re.compile(r"[$!][A-Z]{2}[A-Z]{3},|8=FIX")
"""Begins messages of NMEA 0183 and FIX: what their fields are depends on the message."""


class TitleError(ValueError):
    """The names of the columns are not in the first line; the text is the line that has them."""


def delimited(texts: Sequence[str], *, is_file: bool = True) -> CsvFormat | None:
    """Return the format of lines or records if they are delimited text, else None.

    ``is_file``: texts are lines of which the first may be a header; else each is a record.

    Raises:
        TitleError: other lines are before the header.
    """
    head = [text.removesuffix("\r") for text in texts[:_LINES]]
    if sum(map(bool, map(_MESSAGE.match, head))) >= _SAME_WIDTH * len(head) > 0:
        return None
    if not is_file:
        return _of_records(head)
    comments = [line for line in head if line.startswith("#")] if _has_comments(head) else []
    lines = [line for line in head if line not in comments]
    named = next((line for line in comments if _FIELDS.match(line)), None)
    for delimiter, quote, rows, at in _readings(lines):
        width = len(rows[-1])
        if named is not None:
            names = _FIELDS.sub("", named).split(delimiter)
            names = names if len(names) == width else names[0].split()  # as CloudFront has them
        elif comments and len(found := comments[-1].lstrip("# ").split(delimiter)) == width:
            names = found
        else:
            is_header = _is_header(rows)
            if is_header and at:
                raise TitleError(lines[at])
            if not is_header and (delimiter == _BLANK or not _is_table(rows)):
                continue
            if len(rows) < 2 or (delimiter == _BLANK and not _has_values(rows[1:])):
                continue
            names = distinct_names(rows[0]) if is_header else _numbered(width)
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
    for delimiter, quote, rows, _ in _readings(lines):
        if has_header and len(firsts.pop().split(delimiter)) == len(rows[-1]):
            return CsvFormat(None, delimiter, quote)
        if delimiter != _BLANK and _is_table(rows):
            return CsvFormat(tuple(_numbered(len(rows[-1]))), delimiter, quote)
    return None


def _readings(lines: Sequence[str]) -> list[tuple[str, str | None, list[list[str]], int]]:
    """Return delimiters, quotes, the rows that have the usual width, and the index of the first.

    Those of the widest rows are first.  Most rows have the usual width, or many do and the first
    row is one with names.
    """
    found = []
    for delimiter in _DELIMITERS + _BLANK:
        for quote in ('"', None):
            rows = _rows(lines, delimiter, quote)
            if rows is None:
                continue
            width, count = Counter(map(len, rows)).most_common(1)[0]
            same = [row for row in rows if len(row) == width]
            share = count / len(rows)
            is_usual = share >= _SAME_WIDTH or (
                share >= _SAME_WIDTH_NAMED and delimiter != _BLANK and _is_header(same)
            )
            if width > 1 and is_usual:
                at = next(n for n, row in enumerate(rows) if len(row) == width)
                found.append((delimiter, quote, same, at))
            break
    return sorted(found, key=lambda each: (each[0] == _BLANK, -len(each[2][0])))


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
    first, others = rows[0], rows[1:]
    if sum(map(bool, first)) < len(first) - 1 or not all(map(_is_column_name, first)):
        return False
    again = [at for at, name in enumerate(first) if name and any(row[at] == name for row in others)]
    # A column may have its name in each row, as the last one of the German weather service has.
    is_mark = len(again) == 1 and all(row[again[0]] == first[again[0]] for row in others)
    return not again or (is_mark and _has_values(others))


def _is_column_name(text: str) -> bool:
    return spelled(text) in (TEXT, NULL) and _NAME.fullmatch(text.strip()) is not None


def _is_table(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether rows without a header are likely rows: not texts with commas in each."""
    if len(rows[0]) == 2:
        return all(spelled(text) != TEXT or _TIME.fullmatch(text) for row in rows for text in row)
    prose = sum(" " in text.strip() and not _TIME.fullmatch(text) for row in rows for text in row)
    return prose < _PROSE * len(rows) * len(rows[0])


def _has_values(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a column has only numbers or times, as rows of words do not."""
    return any(
        all(spelled(text) != TEXT or _TIME.fullmatch(text) for text in column)
        for column in zip(*rows, strict=True)
    )


def is_aligned(lines: Sequence[str]) -> bool:
    """Return whether lines are a table with a header and several blanks between the columns."""
    squeezed = [" ".join(line.split()) for line in lines[:_LINES]]
    try:
        found = delimited(squeezed)
    except TitleError:
        return False
    return found is not None and found.delimiter == _BLANK and squeezed != [*lines[:_LINES]]


def _numbered(width: int) -> list[str]:
    return [f"column_{number}" for number in range(1, width + 1)]
