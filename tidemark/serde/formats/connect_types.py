"""Types of Kafka Connect and Debezium by name: times and decimals in JSON with its schema.

Source: Debezium, "Temporal types" and "Decimal types" of its connectors.
"""

import base64
import binascii
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

from tidemark.serde.spellings.time_values import (
    FormatDays,
    FormatMicros,
    FormatMillis,
    FormatNanos,
    FormatTime,
)

CONNECT_TIMES: Mapping[str, type[FormatTime]] = {
    "io.debezium.time.Date": FormatDays,
    "io.debezium.time.Timestamp": FormatMillis,
    "io.debezium.time.MicroTimestamp": FormatMicros,
    "io.debezium.time.NanoTimestamp": FormatNanos,
    "org.apache.kafka.connect.data.Date": FormatDays,
    "org.apache.kafka.connect.data.Timestamp": FormatMillis,
}
"""Times that are numbers, by the name of their type."""

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_ANY_SCALE = "io.debezium.data.VariableScaleDecimal"
_ANY_DIGITS = Context(prec=100_000)
_MOST_DIGITS = 10_000


def typed(value: Any, schema: Any, *, with_times: bool) -> Any:
    """Return a value with its decimals as text; ``with_times``: and its times as FormatTime.

    ``schema``: of the value, as Connect's JSON converter writes it.  What does not fit it is left
    as it is.
    """
    if value is None or not isinstance(schema, dict):
        return value
    name = schema.get("name")
    if isinstance(value, dict):
        if name == _ANY_SCALE:
            return _from_base64(value.get("value"), value.get("scale"))
        return _typed_members(value, schema.get("fields"), with_times=with_times)
    if name == _DECIMAL and isinstance(value, str):
        parameters = schema.get("parameters")
        scale = parameters.get("scale") if isinstance(parameters, dict) else None
        return _from_base64(value, scale)
    if with_times and type(value) is int and isinstance(name, str) and name in CONNECT_TIMES:
        return CONNECT_TIMES[name](value)
    if isinstance(value, list):
        items = schema.get("items")
        return [typed(item, items, with_times=with_times) for item in value]
    return value


def _typed_members(value: dict[str, Any], fields: Any, *, with_times: bool) -> dict[str, Any]:
    if not isinstance(fields, list):
        return value
    schemas = {
        field["field"]: field
        for field in fields
        if isinstance(field, dict) and isinstance(field.get("field"), str)
    }
    return {
        name: typed(member, schemas.get(name), with_times=with_times)
        for name, member in value.items()
    }


def decimal_text(unscaled: bytes, scale: int) -> str:
    """Return a decimal with all its digits as text; ``unscaled``: as big-endian bytes."""
    number = Decimal(int.from_bytes(unscaled, "big", signed=True))
    return f"{number.scaleb(-scale, _ANY_DIGITS):f}"


def _from_base64(data: Any, scale: Any) -> Any:
    """Return the text of a decimal whose unscaled bytes are base64 text."""
    try:
        unscaled, places = base64.b64decode(data, validate=True), int(scale)
    except (binascii.Error, TypeError, ValueError):
        return data
    if abs(places) > _MOST_DIGITS:
        return data
    return decimal_text(unscaled, places)
