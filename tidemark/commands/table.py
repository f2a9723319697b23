"""Formats rows of text as a table for a terminal."""

from collections.abc import Iterator, Sequence


def table_lines(rows: Sequence[Sequence[str]], right: Sequence[int]) -> Iterator[str]:
    """Yield rows with columns of one width; the last column is not padded.

    ``right``: the numbers of the columns that are aligned to the right.
    """
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = [
            text.rjust(width) if at in right else text.ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
