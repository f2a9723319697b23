"""Which columns of a table's key a Kafka key gives, where a record has no value.

See docs/semantics.md, "Tombstones".
"""

from collections.abc import Iterator

import polars as pl

from tidemark.core.rows.row_operators import Apply, Filter, Select, WithColumns
from tidemark.core.rows.stateless import RowOperator
from tidemark.core.rows.tombstones import TOMBSTONE, WithTombstones
from tidemark.errors import PipelineError
from tidemark.language.keyed import KeyedStream
from tidemark.plan.logical import Node
from tidemark.serde.formats.source_format import CloudEventsFormat, without_explode

_REMEDY = (
    "pass tombstones=False if the Kafka key is another one: records without a value are then left "
    "out"
)
_KEY = "_key"


def with_tombstones(stream: KeyedStream) -> Node:
    """Return the stream of a table with a row for each record without a value.

    Results of stages have no such records, and an event of CloudEvents without a value is a row.

    Raises:
        PipelineError: a column of the key is not one of the Kafka key.
    """
    node, key = stream.node, stream.key
    formats = [without_explode(source.format) for source in node.sources()]
    if node.is_of_stages or any(isinstance(each, CloudEventsFormat) for each in formats):
        return node
    known = stream.dataflow.keyed_nodes.get((node, ((TOMBSTONE, key),)))
    if known is not None:
        return known
    places = {name: _place(node, name) for name in key}
    columns = {**node.columns, TOMBSTONE: pl.Boolean()}
    made = Node(columns, (node,), WithTombstones(node.columns, places))
    stream.dataflow.keyed_nodes[node, ((TOMBSTONE, key),)] = made
    return made


def _place(node: Node, name: str) -> str:
    """Return the column of the source that a column of the key is, or "_key"."""
    found = {place or "" for place in _places(node, name)}
    if len(found) > 1 or "" in found:
        raise PipelineError(
            f"table(tombstones): key column {name!r} is not one column of a source, so the Kafka "
            f"key of a record without a value does not give it; {_REMEDY}"
        )
    return found.pop()


def _places(node: Node, name: str) -> Iterator[str | None]:
    """Yield the column of each source that a column is; None if it is computed."""
    if node.source is not None:
        yield (
            name
            if name == _KEY or without_explode(node.source.format) is node.source.format
            else None
        )
        return
    root = _root(node.operator, name)
    for parent in node.parents:
        yield from [root] if root is None else _places(parent, root)


def _root(operator: RowOperator | None, name: str) -> str | None:
    """Return the column before an operator that a column after it is; None if it is computed."""
    if name == _KEY or operator is None or isinstance(operator, Filter):
        return name
    if isinstance(operator, WithColumns | Select) and name in operator.types:
        named = (
            each.meta.output_name(raise_if_undetermined=False) for each in operator.expressions
        )
        made = dict(zip(named, operator.expressions, strict=True)).get(name)
        is_column = made is not None and made.meta.undo_aliases().meta.is_column()
        return made.meta.root_names()[0] if made is not None and is_column else None
    passes = isinstance(operator, WithColumns) or (
        isinstance(operator, Apply) and name not in operator.types
    )
    return name if passes else None
