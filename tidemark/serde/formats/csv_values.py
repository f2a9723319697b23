"""Values in CSV: each line of a record is a row."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from tidemark.serde.formats.value_decoder import UnreadableValueError, utf8_text
from tidemark.serde.records import Headers

_MARK = "\ufeff"

csv.field_size_limit(2**31 - 1)  # a record has a limit, the broker's; its fields need no other


def csv_dialect(delimiter: str, quote: str | None) -> dict[str, Any]:
    """Return the options of ``csv.reader``; ``quote`` is None if fields have no quotes."""
    return {
        "delimiter": delimiter,
        "quotechar": quote,
        "quoting": csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        "strict": True,
    }


class CsvValues:
    """Decodes lines of delimited text; an empty field is null."""

    def __init__(
        self, columns: Sequence[str] | None, delimiter: str, quote: str | None, added: int = 0
    ) -> None:
        """``columns``: the names in the order of the fields; None: the first line has them.

        ``added``: how many of the first columns errors leave out.
        """
        self._columns, self._added = columns, added
        self._delimiter, self._quote = delimiter, quote
        self._dialect = csv_dialect(delimiter, quote)

    def decode(
        self, value: bytes, _key: bytes | None = None, _headers: Headers = None, /
    ) -> list[dict[str, str | None]]:
        """Return a mapping for each line; blank lines are skipped."""
        try:
            lines = self._lines(utf8_text(value).removeprefix(_MARK))
        except csv.Error as error:
            raise UnreadableValueError(f"not CSV: {error}") from None
        columns = self._columns
        if columns is None:
            columns, lines = lines[0] if lines else (), lines[1:]
        return [_row(columns, number, line, self._added) for number, line in enumerate(lines, 1)]

    def _lines(self, text: str) -> list[list[str]]:
        """Return the fields of each line that has any."""
        if "\r" not in text and (self._quote is None or self._quote not in text):
            # A third of the time of the reader, which is made for each record.
            return [line.split(self._delimiter) for line in text.split("\n") if line]
        return [line for line in csv.reader(io.StringIO(text, ""), **self._dialect) if line]


def _row(
    columns: Sequence[str], number: int, fields: Sequence[str], added: int
) -> dict[str, str | None]:
    if len(fields) != len(columns):
        names, count = columns[added:], len(fields) - added
        raise UnreadableValueError(
            f"row {number} has {count} fields, not {len(names)}: {', '.join(names)}"
        )
    return {name: text or None for name, text in zip(columns, fields, strict=True)}
