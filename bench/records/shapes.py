"""Shapes of records: each has six leaf values, one of which is the event time.

The names in a map count as values, because they become values of a column.
"""

import io
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import fastavro
import msgspec

import tidemark

_FLAT: Mapping[str, Any] = {
    "id": str,
    "city": str,
    "price": float,
    "size": int,
    "name": str,
    "at": int,
}
_PATHS: Mapping[str, str] = {
    "id": "user.id",
    "city": "user.city",
    "price": "item.price",
    "size": "item.size",
    "name": "item.name",
}
"""Of the values of a flat record, their places in a nested one."""

_AVRO: Mapping[str, Any] = {
    "type": "record",
    "name": "Item",
    "fields": [
        {"name": name, "type": {str: "string", float: "double", int: "long"}[type_]}
        for name, type_ in _FLAT.items()
    ],
}


@dataclass(frozen=True)
class Shape:
    """A shape of records.

    ``value``: the record with the members of a flat one.  ``schema``: of the source; a function,
    because other versions may not know its types.  ``options``: further arguments of ``source``.
    """

    value: Callable[[int, dict[str, Any]], Any]
    schema: Callable[[], Mapping[str, Any] | None] = lambda: _FLAT
    key: str = "id"
    encode: Callable[[Any], bytes] = msgspec.json.encode
    options: Callable[[], Mapping[str, Any]] = dict

    def records(self, count: int) -> list[bytes]:
        """Return encoded records."""
        draw = random.Random(1)
        return [self.encode(self.value(n, _flat(n, draw))) for n in range(count)]


def _flat(number: int, draw: random.Random) -> dict[str, Any]:
    return {
        "id": f"user-{number % 1_000}",
        "city": draw.choice(["Berlin", "Paris", "Rome"]),
        "price": draw.random() * 100,
        "size": number % 7,
        "name": f"item {number % 5_000}",
        "at": 1_700_000_000_000 + number,
    }


def _nested(_number: int, flat: dict[str, Any]) -> dict[str, Any]:
    return {
        "user": {name: flat[name] for name in ("id", "city")},
        "item": {name: flat[name] for name in ("price", "size", "name")},
        "at": flat["at"],
    }


def _with_nulls(number: int, flat: dict[str, Any]) -> dict[str, Any]:
    nested = _nested(number, flat)
    return nested if number % 3 else {**nested, "item": None}


def _listed(_number: int, flat: dict[str, Any]) -> dict[str, Any]:
    items = [{"price": flat["price"], "size": flat["size"] + more} for more in range(2)]
    return {"id": flat["id"], "items": items, "at": flat["at"]}


def _mapped(_number: int, flat: dict[str, Any]) -> dict[str, Any]:
    values = {"price": flat["price"], "size": flat["size"]}
    return {"id": flat["id"], "values": values, "at": flat["at"]}


def _in_text(_number: int, flat: dict[str, Any]) -> dict[str, Any]:
    item = {name: flat[name] for name in ("price", "size", "name")}
    return {"id": flat["id"], "city": flat["city"], "item": json.dumps(item), "at": flat["at"]}


def _nested_schema() -> Mapping[str, Any]:
    item = {"price": float, "size": int, "name": str}
    return {"user": {"id": str, "city": str}, "item": item, "at": int}


def _paths() -> Mapping[str, Any]:
    return {name: tidemark.field(_PATHS.get(name, name), type_) for name, type_ in _FLAT.items()}


def _named_by_path(_number: int, flat: dict[str, Any]) -> dict[str, Any]:
    return {_PATHS.get(name, name).replace(".", "_"): value for name, value in flat.items()}


def _lenient() -> Mapping[str, Any]:
    return {**_FLAT, "price": tidemark.field("price", float, lenient=True)}


def _text_schema() -> Mapping[str, Any]:
    item = {"price": float, "size": int, "name": str}
    return {"id": str, "city": str, "item": tidemark.field("item", item, json=True), "at": int}


def _in_avro(value: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, _avro_schema(), value)
    return body.getvalue()


@cache
def _avro_schema() -> Any:
    return fastavro.parse_schema(dict(_AVRO))


def _in_csv(value: Any) -> bytes:
    return ",".join(map(str, value.values())).encode()


def _change(_number: int, flat: dict[str, Any]) -> dict[str, Any]:
    return {"before": None, "after": flat, "op": "c", "ts_ms": flat["at"], "source": {"db": "shop"}}


@cache
def _message() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="item.proto", package="shop", syntax="proto3")
    item = file.message_type.add(name="Item")
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {str: kinds.TYPE_STRING, float: kinds.TYPE_DOUBLE, int: kinds.TYPE_INT64}
    for number, (name, type_) in enumerate(_FLAT.items(), 1):
        item.field.add(name=name, number=number, type=types[type_], label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Item"))


def _same(_number: int, flat: dict[str, Any]) -> dict[str, Any]:
    return flat


SHAPES: Mapping[str, Shape] = {
    "flat": Shape(_same),
    "flat, long names": Shape(
        _named_by_path, lambda: _named_by_path(0, dict(_FLAT)), key="user_id"
    ),
    "structs": Shape(_nested, _nested_schema, key="user.id"),
    "structs, a third null": Shape(_with_nulls, _nested_schema, key="user.id"),
    "list of structs": Shape(
        _listed, lambda: {"id": str, "items": [{"price": float, "size": int}], "at": int}
    ),
    "map": Shape(_mapped, lambda: {"id": str, "values": dict[str, float], "at": int}),
    "paths": Shape(_nested, _paths),
    "lenient, numbers": Shape(_same, _lenient),
    "lenient, texts": Shape(lambda _, flat: {**flat, "price": str(flat["price"])}, _lenient),
    "JSON in text": Shape(_in_text, _text_schema),
    "array": Shape(lambda _, flat: [flat]),
    "avro": Shape(
        _same, lambda: None, encode=_in_avro, options=lambda: {"format": tidemark.avro(_AVRO)}
    ),
    "csv": Shape(_same, encode=_in_csv, options=lambda: {"format": tidemark.csv()}),
    "debezium-json": Shape(_change, options=lambda: {"format": "debezium-json"}),
    "protobuf": Shape(
        _same,
        lambda: None,
        encode=lambda value: bytes(_message()(**value).SerializeToString()),
        options=lambda: {"format": tidemark.protobuf(_message())},
    ),
}
