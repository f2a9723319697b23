"""Small made-up excerpts of eight public shapes of records."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 3, 1, tzinfo=UTC)


def _iso(seconds: float) -> str:
    at = START + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ms(seconds: float) -> int:
    return int((START + timedelta(seconds=seconds)).timestamp() * 1000)


def github(draw: random.Random, n: int) -> dict[str, Any]:
    kind = draw.choice(["PushEvent", "IssuesEvent", "WatchEvent"])
    payloads: dict[str, dict[str, Any]] = {
        "PushEvent": {
            "push_id": n,
            "ref": "refs/heads/main",
            "commits": [{"sha": f"{n:040x}", "author": {"name": "a"}, "distinct": True}] * (n % 3),
        },
        "IssuesEvent": {
            "action": "opened",
            "issue": {"number": n, "title": "it breaks", "labels": [], "assignee": None},
        },
        "WatchEvent": {"action": "started"},
    }
    event = {
        "id": str(34_000_000_000 + n),
        "type": kind,
        "actor": {"id": n % 7, "login": f"user{n % 7}", "url": "https://api.github.com/users/u"},
        "repo": {"id": n % 3, "name": f"org/repo{n % 3}"},
        "payload": payloads[kind],
        "public": True,
        "created_at": _iso(n).replace(".000Z", "Z"),
    }
    if n % 2:
        event["org"] = {"id": 1, "login": "org"}
    return event


def cloudevents(draw: random.Random, n: int) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"A234-{n}",
        "source": f"/sensors/{n % 4}",
        "type": "com.example.reading",
        "subject": None if n % 5 == 0 else f"room {n % 2}",
        "time": _iso(n * 0.5 - draw.random() * 3).replace("Z", "+00:00"),
        "datacontenttype": "application/json",
        "data": {"temperature": 20 + draw.random(), "tags": ["a", "b"], "ok": draw.random() < 0.9},
    }


def debezium(draw: random.Random, n: int) -> dict[str, Any]:
    row = {"id": n % 9, "name": "x", "price": "12.50", "updated_at": _ms(n - 60)}
    op = draw.choice("cud")
    return {
        "before": None if op == "c" else row,
        "after": None if op == "d" else row,
        "source": {
            "version": "3.0.0.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": _ms(n),
            "snapshot": "false",
            "db": "shop",
            "sequence": '["24023128","24023128"]',
            "table": "products",
            "lsn": 24_023_128 + n,
        },
        "op": op,
        "ts_ms": _ms(n + 0.5),
        "transaction": None,
    }


def logstash(draw: random.Random, n: int) -> dict[str, Any]:
    return {
        "@timestamp": _iso(n * 2 - draw.random() * 5),
        "@version": "1",
        "message": "GET /index.html",
        "host": {"name": f"web{n % 3}", "ip": ["10.0.0.1", "fe80::1"]},
        "log": {"level": draw.choice(["info", "warn"]), "offset": n},
        "tags": ["beats_input_raw_event"],
        "_type": "doc",
        "agent.version": "8.1",
        "fields": {} if n % 2 else {"env": "prod"},
    }


def taxi(draw: random.Random, n: int) -> dict[str, Any]:
    at = START + timedelta(minutes=n)
    return {
        "VendorID": 1 + n % 2,
        "tpep_pickup_datetime": f"{at:%Y-%m-%d %H:%M:%S}",
        "tpep_dropoff_datetime": f"{at + timedelta(minutes=9):%Y-%m-%d %H:%M:%S}",
        "passenger_count": draw.choice([1, 2, 1.0, None]),
        "trip_distance": round(draw.random() * 9, 2),
        "PULocationID": draw.randrange(10),
        "store_and_fwd_flag": draw.choice(["N", "Y"]),
        "fare_amount": 8.5,
        "congestion_surcharge": draw.choice([2.5, "", "-"]),
    }


def sensors(draw: random.Random, n: int) -> Any:
    reading = {
        "deviceId": f"dev-{n % 5}",
        "ts": (_ms(n) - draw.randrange(2_000)) // 1000,
        "readings": {f"ch{draw.randrange(60)}": draw.random() for _ in range(3)},
        "battery": draw.choice([3, 3.3]),
        "status": '{"rssi": -70, "errors": [1, 2]}',
    }
    return [reading, {**reading, "deviceId": "dev-9"}] if n % 10 == 0 else reading


def access_log(draw: random.Random, n: int) -> dict[str, Any]:
    at = START + timedelta(seconds=n)
    return {
        "remote_addr": f"10.0.0.{n % 8}",
        "time_local": f"{at:%d/%b/%Y:%H:%M:%S} +0000",
        "request": "GET / HTTP/1.1",
        "status": draw.choice([200, 404, "-"]),
        "body_bytes_sent": str(draw.randrange(5_000)),
        "request_time": f"{draw.random():.3f}",
        "http_user_agent": "curl/8.0 \"quoted\" \\ and 'more'",
    }


def orders(draw: random.Random, n: int) -> dict[str, Any]:
    return {
        "orderId": f"o-{n}",
        "customer": {"id": n % 6, "address": {"city": "Berlin", "zip": "10115"}},
        "items": [
            {"sku": f"s{k}", "qty": k + 1, "price": 9.99, "attrs": {"size": "M"}}
            for k in range(draw.randrange(4))
        ],
        "total": draw.choice([10, 19.98]),
        "start": "web",
        "class": "std",
        "coupon": None,
        "event_time": _ms(n * 3 - draw.random() * 20),
        "updatedAt": _iso(n * 3 + 100),
    }


SHAPES = {
    each.__name__: each
    for each in (github, cloudevents, debezium, logstash, taxi, sensors, access_log, orders)
}


def lines(name: str, count: int = 200, seed: int = 1) -> Iterator[bytes]:
    """Yield the records of a shape as JSON."""
    draw = random.Random(seed)
    for n in range(count):
        yield json.dumps(SHAPES[name](draw, n)).encode()
