"""Records of nine shapes of data, made up, as the systems write them; and what comes of them.

Each shape ends with a record that is some days later, so that the windows before it close.  The
pipeline is pipeline.py.
"""

import io
import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import fastavro

from tests.support.registry import Registry
from tests.support.shapes.pipeline import READING

HOUR = 1_767_322_800_000  # 2026-01-02T03:00:00Z
END = 1_767_600_000_000  # 2026-01-05T08:00:00Z
_OLD = {
    "type": "record",
    "name": "Reading",
    "namespace": "plant",
    "fields": [
        {"name": "device", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "celsius", "type": "float"},
        {"name": "site", "type": {"type": "enum", "name": "Site", "symbols": ["NORTH", "SOUTH"]}},
    ],
}
_OTHER = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]}


@dataclass(frozen=True)
class Shape:
    """Records of a shape, and what comes of them.

    ``values``: of a topic; the last may be a tombstone.  ``panes``: key, count and sum of the
    window at HOUR.  ``dead``: by offset, what the reason of its dead letter contains.
    """

    values: list[bytes | None]
    panes: list[tuple[Any, int, Any]]
    dead: dict[int, str]


def _json(*records: Any) -> list[bytes | None]:
    return [json.dumps(record).encode() for record in records]


def _push(repo: str, at: str, commits: Any, kind: str = "PushEvent") -> dict[str, Any]:
    return {
        "id": "45218734210",
        "type": kind,
        "actor": {
            "id": 583231,
            "login": "octocat",
            "display_login": "octocat",
            "gravatar_id": "",
            "url": "https://api.github.invalid/users/octocat",
        },
        "repo": {"id": 1296269, "name": repo, "url": f"https://api.github.invalid/repos/{repo}"},
        "payload": {"ref": "refs/heads/main", "size": 2, "head": "9f3c", "commits": commits},
        "public": True,
        "created_at": at,
        "org": {"id": 9919, "login": "octo", "gravatar_id": ""},
    }


def _commit(sha: str) -> dict[str, Any]:
    author = {"email": "o@example.com", "name": "Octo"}
    return {"sha": sha, "author": author, "message": "Fix", "distinct": True, "url": "u"}


def github() -> Shape:
    two = [_commit("a1"), _commit("b2")]
    return Shape(
        _json(
            _push("octo/hello", "2026-01-02T03:04:05Z", two),
            _push("octo/hello", "2026-01-02T03:59:59Z", two[:1]),
            {**_push("octo/docs", "2026-01-02T03:30:00Z", None, "WatchEvent"), "org": None},
            _push("octo/hello", "2026-01-02T03:30:00Z", [{"sha": 7}]),
            _push("octo/end", "2026-01-05T08:00:00Z", []),
        ),
        [("octo/docs", 1, None), ("octo/hello", 2, 3)],
        {3: "payload.commits"},
    )


def _event(at: str, **fields: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": "A234-1234-1234",
        "source": "/shop/orders",
        "type": "com.example.order.paid",
        "time": at,
        "datacontenttype": "application/json",
        **fields,
    }


def cloudevents() -> Shape:
    packed = b64encode(b'{"cents": 250}').decode()
    batch = [
        _event("2026-01-02T03:20:00Z", data={"cents": 100}),
        _event("2026-01-02T03:21:00Z", data={"cents": 11}, type="com.example.order.sent"),
    ]
    without_type = {k: v for k, v in batch[0].items() if k != "type"}
    return Shape(
        _json(
            _event("2026-01-02T03:04:05.123456789Z", data={"cents": 999, "lines": [1]}),
            _event("2026-01-02T05:05:00+02:00", data_base64=packed, traceparent="00-4bf9-00"),
            batch,
            without_type,
            _event("2026-01-05T08:00:00Z", data={"cents": 0}),
        ),
        [("com.example.order.paid", 3, 1_349), ("com.example.order.sent", 1, 11)],
        {3: "type"},
    )


def _change(op: str, before: Any, after: Any, at_ms: int) -> dict[str, Any]:
    source = {
        "version": "3.0.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": at_ms,
        "snapshot": "false", "db": "shop", "schema": "public", "table": "orders", "txId": 555,
    }  # fmt: skip
    return {
        "before": before, "after": after, "source": source, "op": op, "ts_ms": at_ms + 40,
        "transaction": None,
    }  # fmt: skip


def debezium() -> Shape:
    schema = {"type": "struct", "fields": [], "optional": False, "name": "shop.Envelope"}
    one, two = {"id": 1, "qty": 2}, {"id": 1, "qty": 5}
    return Shape(
        [
            *_json(
                {"schema": schema, "payload": _change("r", None, one, HOUR)},
                _change("u", one, two, HOUR + 1_000),
                _change("u", two, one, HOUR + 2_000),
                {"schema": schema, "payload": _change("d", two, None, HOUR + 3_000)},
                _change("c", None, {"id": "1", "qty": 2}, HOUR + 4_000),
                _change("c", None, one, END),
            ),
            None,
        ],
        [("d", 1, 5), ("r", 1, 2), ("u", 2, 7)],
        {4: "id"},
    )


def _line(at: str, host: str, response: Any, size: Any) -> dict[str, Any]:
    return {
        "@timestamp": at,
        "@version": "1",
        "message": f'GET /a HTTP/1.1" {response} {size}',
        "host": {"name": host, "ip": ["10.0.0.1"]},
        "log.file.path": "/var/log/nginx/access.log",
        "response": response,
        "bytes": size,
        "tags": ["beats", "_grokparsesuccess"],
    }


def logstash() -> Shape:
    return Shape(
        _json(
            _line("2026-01-02T03:04:05.678Z", "web-1", "404", "512"),
            _line("2026-01-02T03:05:05.678Z", "web-1", 500, "-"),
            _line("2026-01-02T03:06:05.678Z", "web-1", "200", "90"),
            _line("2026-01-02T03:07:05,678+0000", "web-2", "503", 8.0),
            _line("2026-01-02T03:08:05.678Z", "web-2", "teapot", "1"),
            _line("yesterday", "web-2", "500", "1"),
            _line("2026-01-05T08:00:00.000Z", "web-1", "500", "1"),
        ),
        [("web-1", 2, 512), ("web-2", 1, 8)],
        {4: "response", 5: "event time"},
    )


def _trip(ended: str, riders: str, zone: str, fee: str = "") -> bytes:
    begin = "2026-01-01 21:58:00"
    return (
        f"2,{begin},{ended},{riders},1.72,1.0,N,{zone},166,1,12.1,1.0,0.5,3.42,0.0,1.0,20.52,2.5,"
        f"{fee}"
    ).encode()


def taxi() -> Shape:
    return Shape(
        [
            _trip("2026-01-01 22:04:05", "1.0", "132", "1.75"),
            _trip("2026-01-01 22:30:00", "", "132"),
            _trip("2026-01-01 22:59:59.999", "3", "186") + b"\r\n",
            b"2,2026-01-01 21:58:00,2026-01-01 22:10:00",
            _trip("2026-01-01 22:31:00", "1.5", "132"),
            _trip("2026-01-05 03:00:00", "1", "132"),
        ],
        [(132, 2, 1), (186, 1, 3)],
        {3: "field", 4: "passenger_count"},
    )


def _framed(number: int, schema: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def sensors(registry: Registry) -> Shape:
    new, old, other = (registry.add(schema) for schema in (READING, _OLD, _OTHER))

    def reading(name: str, at_ms: int, celsius: float | None, site: str = "NORTH") -> bytes:
        fields = {"celsius": celsius, "site": site, "unit": "C"}
        return _framed(new, READING, {"sensor": name, "at": at_ms * 1_000, **fields})

    before = {"device": "t-1", "at": (HOUR + 9_000) * 1_000, "celsius": 2.5, "site": "SOUTH"}
    return Shape(
        [
            reading("t-1", HOUR, 20.25),
            reading("t-2", HOUR + 5_000, None),
            _framed(old, _OLD, before),
            _framed(other, _OTHER, {"x": 1}),
            b"\0" + (999).to_bytes(4, "big") + b"\2",
            b"{}",
            reading("t-1", END, 1.0),
        ],
        [("t-1", 2, 22.75), ("t-2", 1, None)],
        {3: "", 4: "999", 5: ""},
    )


def _request(at: str, status: str, size: str) -> bytes:
    return (
        f'203.0.113.7 - ann [{at}] "GET /a?b=c HTTP/1.1" {status} {size} "-" "curl/8.5"'
    ).encode()


def access() -> Shape:
    return Shape(
        [
            _request("02/Jan/2026:03:04:05 +0000", "200", "512"),
            _request("02/Jan/2026:05:10:00 +0200", "200", "88"),
            _request("02/Jan/2026:03:11:00 +0000", "304", "-"),
            b'203.0.113.7 - - [02/Jan/2026:03:11:00 +0000] "\\x16\\x03" 400 150',
            b"\xff\xfe",
            _request("05/Jan/2026:08:00:00 +0000", "200", "1"),
        ],
        [("200", 2, 600), ("304", 1, None)],
        {3: "", 4: "UTF-8"},
    )


def _purchase(ts: int, items: Any, event: str = "purchase") -> dict[str, Any]:
    return {
        "event": event,
        "ts": ts,
        "anonymousId": "d3b0-7384",
        "context": {"page": {"path": "/cart"}, "utm.source": "mail"},
        "properties": '{"currency": "EUR", "coupon": null}',
        "items": items,
    }


def clicks() -> Shape:
    tea, cup = {"sku": "tea", "cents": "990", "qty": 1}, {"sku": "cup", "cents": 450, "qty": 2}
    seconds = HOUR // 1_000
    return Shape(
        _json(
            _purchase(HOUR + 45_678, [tea, cup]),
            [_purchase(seconds + 60, [tea]), _purchase(seconds + 61, [], "page")],
            {**_purchase(HOUR, [tea]), "properties": "{"},
            _purchase(5, [tea]),
            _purchase(END, [cup]),
        ),
        [("cup", 1, 900), ("tea", 2, 1_980)],
        {2: "properties", 3: "event time"},
    )


_ORDER_COLUMNS = [
    {"field": "id", "type": "int32"},
    {"field": "made", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "due", "type": "int32", "name": "io.debezium.time.Date"},
    {
        "field": "price",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
    },
]
_ORDERS = {
    "type": "struct",
    "fields": [{"field": "after", "type": "struct", "fields": _ORDER_COLUMNS}],
}
_DAY = HOUR // 86_400_000


def _order(at_ms: int, due: Any, cents: int) -> dict[str, Any]:
    price = b64encode(cents.to_bytes(2, "big")).decode()
    row = {"id": 1, "made": at_ms * 1_000 + 7, "due": due, "price": price}
    return {"schema": _ORDERS, "payload": {"op": "c", "before": None, "after": row}}


def orders() -> Shape:
    return Shape(
        _json(
            _order(HOUR + 5_000, _DAY, 1_250),
            _order(HOUR + 6_000, _DAY + 1, 250),
            _order(HOUR + 7_000, _DAY, 25),
            _order(HOUR + 7_000, _DAY - 1, 25),
            _order(HOUR + 8_000, "soon", 25),
            _order(END, _DAY + 9, 0),
        ),
        [("2026-01-02", 2, 12.75), ("2026-01-03", 1, 2.5)],
        {4: "column due: no date and time in unit %Y-%m-%d"},
    )


def shapes(registry: Registry) -> dict[str, Shape]:
    """Return all shapes by name; the schemas of sensors are in the registry then."""
    return {
        "github": github(),
        "cloudevents": cloudevents(),
        "debezium": debezium(),
        "logstash": logstash(),
        "taxi": taxi(),
        "sensors": sensors(registry),
        "access": access(),
        "clicks": clicks(),
        "orders": orders(),
    }
