"""Tables as HTML, for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a title; all texts are escaped."""
    lines = [f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows]
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (
        f"<table><caption>{escape(title)}</caption><thead><tr>{names}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )
