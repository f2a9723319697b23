"""The columns of a static table: whether a file or query has them, and its rows as JSON objects.

Only columns of the schema are read.  JSON has no bytes, so bytes are base64 text, and only a column
of the type bytes takes them: in a column of text, the base64 would look like the value.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import polars as pl

from tidemark.errors import ConfigurationError
from tidemark.plan.physical import SourcePlan
from tidemark.plan.static_table import FIELDS


class StaticColumns:
    """The columns of a static table."""

    def __init__(self, source: SourcePlan) -> None:
        """``source``: the plan of the table."""
        self.what = f"static table {source.name} from {source.static}"
        own = {field.name for field in FIELDS}
        self._fields = [each for each in source.schema.fields if each.name not in own]

    def chosen(self, there: Sequence[str]) -> list[str]:
        """Return the columns of the schema, in the order in which a file or query has them.

        Raises:
            ConfigurationError: one of them is not there once.
        """
        names = {each.place[0]: None for each in self._fields}
        for name in names:
            if there.count(name) == 1:
                continue
            fault = f"several columns have the name {name!r}"
            if name not in there:
                fault = f"there is no column {name!r}"
            shown = f"the columns are {', '.join(map(repr, there))}"
            remedy = shown if there else "the columns have no names: the first line must name them"
            raise ConfigurationError(f"{self.what}: {fault}; {remedy}")
        return [name for name in there if name in names]

    def objects(self, there: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[bytes]:
        """Return rows as JSON objects with the columns of the schema, in the order of the rows.

        Raises:
            ConfigurationError: a column is not there once, or one without the type bytes has some.
        """
        places = [(name, there.index(name)) for name in self.chosen(there)]
        binary = {each.place[0] for each in self._fields if isinstance(each.kind.dtype, pl.Binary)}
        plain = [(name, at) for name, at in places if name not in binary]
        encode = msgspec.json.Encoder().encode
        made = []
        for number, row in enumerate(rows, 1):
            for name, at in plain:
                if isinstance(row[at], bytes):
                    raise ConfigurationError(
                        f"{self.what}: row {number}: column {name!r} has bytes; make text of them, "
                        f"such as hex({name}), or declare the column as bytes"
                    )
            made.append(encode({name: row[at] for name, at in places}))
        return made
