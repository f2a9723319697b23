"""Small made-up excerpts of files as newcomers have them, by the name of the file."""

import gzip
import io
import json
import lzma
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro

START = datetime(2026, 3, 1, tzinfo=UTC)
COUNT = 40


def _at(n: int) -> datetime:
    """Return ascending times, but that each fifth is 9 s behind."""
    return START + timedelta(seconds=7 * n - 9 * (n % 5 == 4))


def _iso(n: int) -> str:
    return _at(n).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ms(n: int) -> int:
    return int(_at(n).timestamp() * 1000)


def _json(record: Callable[[int], dict[str, Any]], indent: int | None = None) -> bytes:
    if indent is None:
        return "".join(json.dumps(record(n)) + "\n" for n in range(COUNT)).encode()
    return json.dumps([record(n) for n in range(COUNT)], indent=indent).encode()


def _rows(row: Callable[[int], str]) -> str:
    return "".join(row(n) + "\n" for n in range(COUNT))


def _trade(n: int) -> dict[str, Any]:
    bids = [["0.0024", "10"], ["0.0022", "5"]]
    return {
        "e": "trade",
        "s": f"S{n % 3}USDT",
        "t": 9_000 + n,
        "p": "0.0010",
        "T": _ms(n),
        "b": bids,
    }


def _recent_change(n: int) -> dict[str, Any]:
    return {
        "$schema": "/mediawiki/recentchange/1.0.0",
        "meta": {"dt": _iso(n), "domain": "en.wikipedia.org", "offset": 4_000 + n},
        "id": n if n % 3 else None,
        "type": ("edit", "new", "log")[n % 3],
        "title": f"Page {n}",
        "timestamp": _ms(n) // 1000,
        "user": f"user{n % 4}",
        "wiki": ("enwiki", "dewiki")[n % 2],
        "log_params": {} if n % 2 else [],
    }


def _change(n: int) -> dict[str, Any]:
    row = {"id": n % 6, "country": ("DE", "FR")[n % 2], "price": "10.50"}
    op = "cud"[n % 3]
    change = {
        "before": None if op == "c" else row,
        "after": None if op == "d" else row,
        "source": {"connector": "postgresql", "ts_ms": _ms(n), "db": "shop", "table": "orders"},
        "op": op,
        "ts_ms": _ms(n) + 50,
    }
    return {"schema": {"type": "struct", "fields": [], "optional": False}, "payload": change}


def _event(n: int) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": str(n),
        "source": f"/shops/{n % 3}",
        "type": "com.example.order.placed",
        "time": _iso(n),
        "data": {"price": 1.5 * n, "lines": [{"sku": "a", "n": 1}]},
    }


def _trail(n: int) -> dict[str, Any]:
    return {
        "eventTime": _iso(n),
        "eventName": ("StartInstances", "StopInstances")[n % 2],
        "userIdentity": {"type": "IAMUser", "userName": f"u{n % 4}"},
        "requestParameters": None,
    }


def _spans(n: int) -> dict[str, Any]:
    span = {"name": ("GET", "PUT")[n % 2], "startTimeUnixNano": str(_ms(n) * 1_000_000)}
    scope = {"scope": {"name": "http"}, "spans": [span, span]}
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}


def _metrics(n: int) -> dict[str, Any]:
    return {
        "device": f"d{n % 4}",
        "_key": "k",
        "start": 1,
        "at": {"$date": _iso(n)},
        "metrics": {f"m{(n * 7 + k) % 31}": 0.5 for k in range(3)},
        "peers": {str(1_000 + n % 9): {"ok": True, "lag": n}, "7": {"ok": False, "lag": 0}},
        "zip": "02134",
    }


def _spelled(n: int) -> str:
    spellings = (
        _iso(n),
        _at(n).strftime("%d/%b/%Y:%H:%M:%S +0000"),
        _at(n).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        str(_ms(n)),
    )
    return spellings[n % 4]


def _container() -> bytes:
    fields = [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "celsius", "type": ["null", "double"], "default": None},
        {"name": "raw", "type": "bytes"},
    ]
    schema = {"type": "record", "name": "Sensor", "namespace": "a.b", "fields": fields}
    rows = [
        {"id": f"s{n % 5}", "at": _at(n), "celsius": None if n % 4 else 1.5, "raw": b"\xff"}
        for n in range(COUNT)
    ]
    written = io.BytesIO()
    fastavro.writer(written, schema, rows, codec="deflate")
    return written.getvalue()


TAXI = "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,PULocationID,fare\n"
NOTES = ("a, b", "two\nlines", 'say ""x""')
ORDERS = '"Order ID","Order Date","Customer Name","_key","Amount (USD)","Note","Paid","Zip"\n'
IIS = (
    "#Software: Microsoft Internet Information Services\n#Fields: date time cs-method c-ip status\n"
)
ZEEK = "#separator \\x09\n#fields\tts\tuid\tid.orig_h\tservice\tduration\n#types\ttime\tstring\n"

FILES: dict[str, bytes] = {
    "changes.json.gz": gzip.compress(_json(_recent_change, indent=2)),
    "trades.jsonl.xz": lzma.compress(_json(_trade)),
    "concatenated.json": _json(_recent_change).replace(b"\n", b""),
    "taxi.csv": (
        TAXI
        + _rows(
            lambda n: (
                f"{n % 2 + 1},{_at(n):%Y-%m-%d %H:%M:%S},{_at(n + 90):%Y-%m-%d %H:%M:%S},"
                f"{('1', '2', '')[n % 3]},{n % 7},{('2.5', 'NA', '-', 'NULL')[n % 4]}"
            )
        )
    ).encode(),
    "orders.csv": (
        ORDERS
        + _rows(
            lambda n: (
                f'"{n}","{_at(n):%m/%d/%Y %I:%M:%S %p}","Name {n % 5}","1","9.90",'
                f'"{NOTES[n % 3]}","true","02134"'
            )
        )
    ).encode("utf-8-sig"),
    "weather.tsv": (
        "station\tdate\ttime\ttemp\n"
        + _rows(lambda n: f"W{n % 4}\t{_at(n):%d.%m.%Y}\t{_at(n):%H:%M}\t{('NaN', '9.5')[n % 2]}")
    ).encode(),
    "conn.log": (
        ZEEK
        + _rows(lambda n: f"{_ms(n) // 1000}.25\tC{n:x}\t10.0.0.{n % 5}\tdns\t{('-', '.5')[n % 2]}")
        + "#close\t2026-03-01-01-00-00\n"
    ).encode(),
    "iis.log": (
        IIS + _rows(lambda n: f"{_at(n):%Y-%m-%d %H:%M:%S} GET 10.0.0.{n % 6} {(200, 404)[n % 2]}")
    ).encode(),
    "access.log": _rows(
        lambda n: (
            f'10.0.0.{n % 9} - - [{_at(n):%d/%b/%Y:%H:%M:%S} +0000] "GET /a?b={n},c HTTP/1.1"'
            f' 200 {n} "-" "Mozilla/5.0 (X11, Linux)"'
        )
    ).encode(),
    "syslog.log": _rows(
        lambda n: f"{_at(n):%b %e %H:%M:%S} host{n % 3} sshd[{n}]: Failed password, retry"
    ).encode(),
    "debezium.json": _json(_change, indent=2),
    "events.json": _json(_event, indent=2),
    "trail.json": json.dumps({"Records": [_trail(n) for n in range(COUNT)]}).encode(),
    "spans.jsonl": _json(_spans),
    "metrics.jsonl": _json(_metrics),
    "mixed.jsonl": _json(lambda n: {"user": f"u{n % 5}", "when": _spelled(n)}),
    "digits.jsonl": _json(
        lambda n: {"code": ("US", "DE")[n % 2], "DATEADDED": int(f"{_at(n):%Y%m%d%H%M%S}")}
    ),
    "net.jsonl": _json(lambda n: {"user": f"u{n % 5}", "at": f"/Date({_ms(n)})/"}),
    "jackson.jsonl": _json(
        lambda n: {"user": f"u{n % 5}", "at": [*_at(n).timetuple()[: 6 if n % 9 else 5]]}
    ),
    "newest.jsonl": _json(
        lambda n: {"id": n, "actor": f"a{n % 4}", "published": _iso(5 * (900 - n))}
    ),
    "sensors.avro": _container(),
}
