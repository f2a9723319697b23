"""Rows of ports as Avro messages, for outputs with ``to(name, format="avro")``.

See docs/schemas.md.  The schemas of panes and late rows are ``schemas/pane.avsc`` and
``schemas/late_row.avsc``, with the port's own columns added.  Message keys are JSON in both
formats, so compaction and consumers need not know the format.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import polars as pl

from tidemark.core.operators.ports import LATE, PANES, ROW, Port
from tidemark.core.rows.schema import instance
from tidemark.core.windows.pane import END_OF_INPUT, RETRACTED, WINDOW
from tidemark.errors import PipelineError
from tidemark.serde.avro import AvroType, schema_file
from tidemark.serde.binary_column import BinaryColumn
from tidemark.serde.formats.framing import HEADER_BYTES
from tidemark.serde.json_results import Messages
from tidemark.serde.json_rows import json_arrays

Columns = Mapping[str, pl.DataType]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 2**63
# Sums are exact.  A sum of integers beyond 64 bits is written as a decimal, and a sum of decimals
# beyond their digits as text.
_WIDE: dict[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0}

_RETRACTED = {
    "name": RETRACTED,
    "type": "boolean",
    "default": False,
    "doc": "Withdraws what was published under this identity.",
}
_WINDOW = {"name": WINDOW, "type": "long", "doc": "Number of the window among those of its key."}


class AvroEncoder:
    """Encodes the rows of one port as Avro."""

    def __init__(self, topic: str, port: Port) -> None:
        """``topic``: the topic of the port, which names the Avro record.

        Raises:
            PipelineError: a column has a name or a type that Avro does not have.
        """
        self._port = port
        values = {name: port.columns[name] for name in port.values}
        self._decimals = {n: t for n, t in values.items() if isinstance(t, pl.Decimal)}
        self.avro = AvroType(record_schema(topic, port))

    def encode(self, rows: pl.DataFrame) -> Messages:
        """Return keys (JSON) and values (Avro) of rows, in order; a withdrawal has no values."""
        port = self._port
        keys = json_arrays(rows.select(port.message_key))
        published = port.published(rows)
        if port.withdraws:
            kept = pl.when(~pl.col(RETRACTED)).then(pl.col(port.values))
            published = published.with_columns(kept)
        if port.kind == PANES and END_OF_INPUT not in published.columns:
            published = published.with_columns(pl.lit(value=False).alias(END_OF_INPUT))
        exact = _exact(_decimals(published), self._decimals)
        return keys, BinaryColumn.of(map(self.avro.encode, exact.iter_rows(named=True)))

    def decode(self, value: bytes) -> dict[str, Any]:
        """Return the record in a published value.

        A value may begin with the id of a schema in a registry.  The present schema decodes it,
        so a reader needs no registry.

        Raises:
            StateError: the bytes have another schema, or are damaged.
        """
        if value.startswith(b"\0"):
            value = self.avro.header + value[HEADER_BYTES:]
        return self.avro.decode(value)


def record_schema(topic: str, port: Port) -> dict[str, Any]:
    """Return the Avro schema of a port's records.

    Panes and late rows have the fields of ``pane.avsc`` and ``late_row.avsc``, with the port's own
    columns before and after them.

    Raises:
        PipelineError: a column has a name or a type that Avro does not have.
    """
    name = re.sub(r"\W", "_", topic, flags=re.ASCII)
    if port.kind == PANES:
        fixed = schema_file("pane")
        key = {n: port.columns[n] for n in port.key}
        number = [_WINDOW] if WINDOW in port.columns else []
        values = {n: port.columns[n] for n in port.values}
        lead = [*_fields(key, name), *number]
        fields = [*lead, *fixed["fields"], *_fields(values, name, _wide(port))]
    elif port.kind == LATE:
        fixed = schema_file("late_row")
        row_name = f"{name.removesuffix('_late')}_row"
        fields = [*fixed["fields"], {"name": ROW, "type": _type(port.columns[ROW], row_name)}]
    else:
        fixed = {"type": "record", "namespace": "tidemark"}
        own = {n: dtype for n, dtype in port.columns.items() if n != RETRACTED}
        fields = [*_fields(own, name, _wide(port)), *[_RETRACTED] * port.withdraws]
    return {**fixed, "name": name, "fields": fields}


def _wide(port: Port) -> dict[str, Any]:
    """Return, by name, the second Avro type of columns whose sums may not fit the first."""
    values = {name: port.columns[name] for name in port.values}
    wide: dict[str, Any] = {n: _WIDE for n, dtype in values.items() if dtype.is_integer()}
    return wide | {n: "string" for n, dtype in values.items() if isinstance(dtype, pl.Decimal)}


def _decimals(panes: pl.DataFrame) -> pl.DataFrame:
    """Return rows in which integers too long for Avro's ``long`` are decimals."""
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
    """Return rows with decimals, in columns that are text because a value has too many digits."""

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
    """Return the Avro fields of columns; ``wide``: second types of columns, by name."""
    fields = []
    for name, dtype in columns.items():
        if not _NAME.fullmatch(name):
            raise PipelineError(
                f"{record}: column {name!r} is not a valid Avro name; use format='json'"
            )
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
    if isinstance(dtype, pl.Datetime) and dtype.time_unit in _INSTANTS:
        local = "" if dtype.time_zone else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{_INSTANTS[dtype.time_unit]}"}
    if isinstance(dtype, pl.Date):
        return {"type": "int", "logicalType": "date"}
    for known, avro in _SCALARS:
        if dtype == known:
            return avro
    raise PipelineError(f"{name}: Avro results cannot hold {dtype}; use format='json'")


_INSTANTS = {"ms": "millis", "us": "micros"}

_SCALARS: tuple[tuple[type[pl.DataType], str], ...] = (
    (pl.String, "string"),
    (pl.Boolean, "boolean"),
    (pl.Float64, "double"),
    (pl.Float32, "double"),
)
