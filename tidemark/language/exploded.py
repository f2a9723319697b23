"""The option ``explode`` of a source, checked in the call that passes it."""

from collections.abc import Iterator, Sequence

from tidemark.core.rows.nested import Path, path_of
from tidemark.core.rows.schema import Field, Kind, ListOf, MapOf, Schema, StructOf
from tidemark.errors import PipelineError
from tidemark.serde.formats.source_format import (
    BytesFormat,
    CsvFormat,
    ExplodedFormat,
    SourceFormat,
    TextFormat,
)


def exploded(
    format_: SourceFormat, explode: str | Sequence[str] | None, schema: Schema, what: str
) -> SourceFormat:
    """Return the format of a source whose records hold a list of rows; ``what`` names the source.

    Raises:
        PipelineError: the path is not one, the format has no lists, or a column does not fit.
    """
    if explode is None:
        return format_
    path = path_of(explode, f"{what}: explode")
    if isinstance(format_, CsvFormat | TextFormat | BytesFormat):
        raise PipelineError(
            f"{what}: explode={explode!r}: records of format {format_} hold no lists; use "
            "explode() of the stream with a column that is a list"
        )
    for place, column, kind in _kinds(schema.fields):
        on_way = len(place) < len(path) and place == path[: len(place)]
        if on_way and not isinstance(kind, StructOf):
            raise PipelineError(
                f"{what}: explode={explode!r}: column {column!r} reads {'.'.join(place)!r} as "
                f"{kind}, but it must be a dict of members, because the list is in it"
            )
        if place == path and isinstance(kind, ListOf) and isinstance(kind.item, StructOf | MapOf):
            raise PipelineError(
                f"{what}: explode={explode!r}: column {column!r} is a list of objects, but each "
                "row has one item of the list: write the type of the item"
            )
    return ExplodedFormat(format_, path)


def _kinds(fields: Sequence[Field], at: Path = ()) -> Iterator[tuple[Path, str, Kind]]:
    """Yield what is read: its place in the record, its column or member, and its kind."""
    for each in fields:
        place = (*at, *each.place)
        yield place, each.name, each.kind
        if isinstance(each.kind, StructOf):
            yield from _kinds(each.kind.fields, place)
