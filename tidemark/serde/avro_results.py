"""Panes and late rows as Avro, for pipelines that ask for it: ``to(name, format="avro")``.

The schemas are ``schemas/pane.avsc`` and ``schemas/late_row.avsc`` with the operator's own columns
put in.  Message keys are JSON as ever, so that compaction and consumers work alike.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import polars as pl

from tidemark.core.windows.pane import END_OF_INPUT, START, WINDOW
from tidemark.core.windows.pane import identity as pane_identity
from tidemark.errors import PipelineError
from tidemark.serde.avro import AvroType, schema_file
from tidemark.serde.json_records import instance
from tidemark.serde.json_results import Messages, json_arrays, late_columns

Columns = Mapping[str, pl.DataType]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 2**63
# Sums are exact; one of integers beyond 64 bits is written as a decimal, one of decimals beyond
# their digits as text.
_WIDE: dict[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0}

_WINDOW = {"name": WINDOW, "type": "long", "doc": "Number of the window among those of its key."}


class AvroResults:
    """Encodes what one operator publishes."""

    def __init__(
        self, topic: str, key: Columns, values: Columns, columns: Columns, identity: str = START
    ) -> None:
        """``topic`` names the records; ``columns`` are the stream's value columns.

        ``identity``: the column that, with the key, says which window a pane is of.

        Raises:
            PipelineError: a column whose name or type Avro does not know.
        """
        name = re.sub(r"\W", "_", topic, flags=re.ASCII)
        pane, late = schema_file("pane"), schema_file("late_row")
        self._decimals = {n: t for n, t in values.items() if isinstance(t, pl.Decimal)}
        wide: dict[str, Any] = {n: _WIDE for n, dtype in values.items() if dtype.is_integer()}
        wide |= dict.fromkeys(self._decimals, "string")
        numbers = [_WINDOW] if identity == WINDOW else []
        lead = [*_fields(key, name), *numbers]
        pane_fields = [*lead, *pane["fields"], *_fields(values, name, wide)]
        self.pane_type = AvroType({**pane, "name": name, "fields": pane_fields})
        # Windows may have columns of their own, which are nothing of the user's row.
        columns = {name: dtype for name, dtype in columns.items() if not name.startswith("@")}
        row = {"name": "row", "type": _record(columns, f"{name}_row")}
        late_fields = [*late["fields"], row]
        self.late_type = AvroType({**late, "name": f"{name}_late", "fields": late_fields})
        self._key = list(key)
        self._columns = list(columns)

    def panes(self, panes: pl.DataFrame) -> Messages:
        """Return panes as messages, in order."""
        if END_OF_INPUT not in panes.columns:
            panes = panes.with_columns(pl.lit(value=False).alias(END_OF_INPUT))
        keys = json_arrays(panes.select(*self._key, pane_identity(panes.columns)))
        rows = _exact(_decimals(panes), self._decimals).iter_rows(named=True)
        return keys, [self.pane_type.encode(row) for row in rows]

    def late(self, late: pl.DataFrame) -> Messages:
        """Return late rows as messages, in order."""
        shown = late_columns(late).with_columns(late.select(self._columns).to_struct("row"))
        keys = json_arrays(late.select(self._key))
        return keys, [self.late_type.encode(row) for row in shown.iter_rows(named=True)]


def _decimals(panes: pl.DataFrame) -> pl.DataFrame:
    """Make decimals of integers too long for Avro's ``long``; the others stay integers."""
    long = [name for name, dtype in panes.schema.items() if dtype == pl.Int128]
    return panes.with_columns(
        pl.Series(
            name,
            [v if v is None or -_LONGEST <= v < _LONGEST else Decimal(v) for v in panes[name]],
            dtype=pl.Object,
        )
        for name in long
    )


def _exact(panes: pl.DataFrame, decimals: Mapping[str, pl.Decimal]) -> pl.DataFrame:
    """Make decimals again of texts, where one beyond all digits made texts of its column."""

    def fitting(text: str | None, digits: int) -> Decimal | str | None:
        if text is None or len(text.strip("-").replace(".", "").lstrip("0")) > digits:
            return text
        return Decimal(text)

    return panes.with_columns(
        pl.Series(name, [fitting(v, dtype.precision) for v in panes[name]], dtype=pl.Object)
        for name, dtype in decimals.items()
        if panes.schema[name] == pl.String
    )


def _fields(
    columns: Columns, record: str, wide: Mapping[str, Any] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Return the fields of columns; ``wide``: by name, as what else values are written."""
    fields = []
    for name, dtype in columns.items():
        if not _NAME.fullmatch(name):
            raise PipelineError(f"{record}: column {name!r} is no Avro name; use format='json'")
        known = _type(dtype, f"{record}_{name}")
        types = ["null", known, *([wide[name]] if name in wide else [])]
        fields.append({"name": name, "type": types, "default": None})
    return fields


def _record(columns: Columns, name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": _fields(columns, name)}


def _type(dtype: pl.DataType, name: str) -> Any:
    if dtype.is_integer() and dtype not in (pl.UInt64, pl.Int128, pl.UInt128):
        return "long"
    if isinstance(dtype, pl.List):
        return {"type": "array", "items": ["null", _type(instance(dtype.inner), name)]}
    if isinstance(dtype, pl.Struct):
        return _record({field.name: instance(field.dtype) for field in dtype.fields}, name)
    if isinstance(dtype, pl.Decimal):
        return {**_WIDE, "precision": dtype.precision, "scale": dtype.scale}
    for known, avro in _SCALARS:
        if dtype == known:
            return avro
    raise PipelineError(f"{name}: Avro results hold no {dtype}; use format='json'")


_SCALARS: tuple[tuple[type[pl.DataType], str], ...] = (
    (pl.String, "string"),
    (pl.Boolean, "boolean"),
    (pl.Float64, "double"),
    (pl.Float32, "double"),
)
