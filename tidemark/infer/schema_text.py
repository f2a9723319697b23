"""Columns as the source text of ``schema=``."""

from collections.abc import Iterator

from tidemark.infer.schema import Column, quoted

_WIDTH = 92


def lines_of(columns: tuple[Column, ...], indent: str = "") -> Iterator[str]:
    """Yield the lines of a dict's members as source text, with comments."""
    for each in columns:
        yield from _lines(each, indent)


def _lines(column: Column, indent: str) -> Iterator[str]:
    comment = f"  # {column.comment}" if column.comment else ""
    key = f"{indent}{quoted(column.name)}: "
    short = f"{key}{_text(column)},{comment}"
    if len(short) <= _WIDTH or not column.type.members:
        yield short
        return
    before, after = _around(column)
    yield f"{key}{before}{{{comment}"
    yield from lines_of(column.type.members, indent + "    ")
    yield f"{indent}}}{after},"


def _text(column: Column) -> str:
    type_ = column.type
    before, after = _around(column)
    if not type_.members:
        return f"{before}{type_.text}{after}"
    inside = ", ".join(f"{quoted(each.name)}: {_text(each)}" for each in type_.members)
    return f"{before}{{{inside}}}{after}"


def _around(column: Column) -> tuple[str, str]:
    """Return the text before and after a type: ``field(...)``, ``list[...]``, ``dict[...]``."""
    type_ = column.type
    options = ", lenient=True" * type_.lenient + ", json=True" * type_.json
    if options or column.member != column.name:
        place = quoted(column.member)
        if "." in column.member:
            place = f"[{place}]"
        return f"field({place}, {type_.before}", f"{type_.after}{options})"
    return type_.before, type_.after
