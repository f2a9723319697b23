"""Nine shapes of data as people have them, each read by a source of one pipeline.

Every source is declared as a user would: nothing else prepares the records.  Outputs have the key
``k``; records.py has the records and the results.
"""

import os
from datetime import date, datetime

from tidemark import Pipeline, avro, bounded, col, count, csv, field, tumbling
from tidemark import sum as total
from tidemark.language.stream import Stream

ACCESS = (
    r'^(?<ip>\S+) \S+ (?<user>\S+) \[(?<at>[^\]]+)\] "(?<method>\S+) (?<path>\S+) [^"]*" '
    r"(?<status>\d{3}) (?<bytes>\d+|-)"
)
"""A line of nginx's combined log."""

READING = {
    "type": "record",
    "name": "Reading",
    "namespace": "plant",
    "fields": [
        {"name": "sensor", "type": "string", "aliases": ["device"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "celsius", "type": ["null", "double"], "default": None},
        {"name": "site", "type": {"type": "enum", "name": "Site", "symbols": ["NORTH", "SOUTH"]}},
        {"name": "unit", "type": "string", "default": "C"},
    ],
}

TAXI = [
    *("VendorID", "tpep_pickup_datetime", "tpep_dropoff_datetime", "passenger_count"),
    *("trip_distance", "RatecodeID", "store_and_fwd_flag", "PULocationID", "DOLocationID"),
    *("payment_type", "fare_amount", "extra", "mta_tax", "tip_amount", "tolls_amount"),
    *("improvement_surcharge", "total_amount", "congestion_surcharge", "Airport_fee"),
]


def hourly(rows: Stream, key: str, value: str, output: str) -> None:
    """Count rows and add up a value in windows of an hour, by the key ``k``."""
    windows = rows.key_by(k=key).window(tumbling("1h"))
    windows.aggregate(n=count(), v=total(value)).to(output)


def github(pipeline: Pipeline, topic: str) -> None:
    """Pushes of a repository: nested objects, a list of objects, a path as key."""
    events = pipeline.source(
        topic,
        schema={
            "id": str,
            "type": str,
            "actor": {"id": int, "login": str},
            "repo": {"id": int, "name": str},
            "payload": {"size": int, "ref": str, "commits": [{"sha": str, "distinct": bool}]},
            "public": bool,
            "created_at": datetime,
        },
        event_time="created_at",
        watermark=bounded("0s"),
        idle_after="1h",
    ).with_columns(commits=field("payload.commits").list.len())
    hourly(events, "repo.name", "commits", "github")


def cloudevents(pipeline: Pipeline, topic: str) -> None:
    """Orders in CloudEvents: structured, in base64, in a batch."""
    events = pipeline.source(
        topic,
        schema={"type": str, "time": str, "cents": field("data.cents", int)},
        format="cloudevents",
        event_time="time",
        unit="iso8601",
        watermark=bounded("0s"),
        idle_after="1h",
    )
    hourly(events, "type", "cents", "cloudevents")


def debezium(pipeline: Pipeline, topic: str) -> None:
    """Changes of a table, with the schema beside them and without; a tombstone."""
    changes = pipeline.source(
        topic,
        schema={"id": int, "qty": int, "__op": str, "at": field("__source.ts_ms", int)},
        format="debezium-json",
        event_time="at",
        watermark=bounded("0s"),
        idle_after="1h",
    )
    hourly(changes, "__op", "qty", "debezium")


def logstash(pipeline: Pipeline, topic: str) -> None:
    """Lines of Logstash: ``@timestamp``, names with dots, numbers in text, ``-`` for null."""
    lines = pipeline.source(
        topic,
        schema={
            "at": field("@timestamp", str),
            "version": field("@version", str),
            "host": field("host.name", str),
            "status": field("response", int, lenient=True),
            "bytes": field("bytes", int, lenient=True),
            "file": field(["log.file.path"], str),
            "tags": list[str],
        },
        event_time="at",
        unit="iso8601",
        watermark=bounded("0s"),
        idle_after="1h",
    ).filter(col("status") >= 400)
    hourly(lines, "host", "bytes", "logstash")


def taxi(pipeline: Pipeline, topic: str) -> None:
    """Lines of the taxi files of New York: 19 fields, local times, empty and ``1.0`` counts."""
    trips = pipeline.source(
        topic,
        schema={
            "tpep_dropoff_datetime": str,
            "passenger_count": int,
            "PULocationID": int,
            "total_amount": float,
        },
        format=csv(TAXI),
        event_time="tpep_dropoff_datetime",
        unit="iso8601",
        zone="America/New_York",
        watermark=bounded("0s"),
        idle_after="1h",
    )
    hourly(trips, "PULocationID", "passenger_count", "taxi")


def sensors(pipeline: Pipeline, topic: str) -> None:
    """Sensors in Avro behind a registry; an old writer lacks a member and has another name."""
    readings = pipeline.source(
        topic,
        schema={"sensor": str, "at": datetime, "celsius": float},
        format=avro(READING, framed=True),
        event_time="at",
        watermark=bounded("0s"),
        idle_after="1h",
    )
    hourly(readings, "sensor", "celsius", "sensors")


def access(pipeline: Pipeline, topic: str) -> None:
    """Lines of nginx: text, taken apart by an expression, time in brackets."""
    line = col("line").str.extract_groups(ACCESS)
    stamp = line.struct.field("at")
    lines = pipeline.source(
        topic,
        schema={"line": str},
        format="text",
        event_time=stamp.str.to_datetime("%d/%b/%Y:%H:%M:%S %z", time_unit="ms"),
        watermark=bounded("0s"),
        idle_after="1h",
    ).select(
        status=line.struct.field("status"),
        bytes=line.struct.field("bytes").str.to_integer(strict=False),
    )
    hourly(lines, "status", "bytes", "access")


def clicks(pipeline: Pipeline, topic: str) -> None:
    """Purchases of a click stream: arrays, JSON in text, seconds and milliseconds, items."""
    events: Stream = pipeline.source(
        topic,
        schema={
            "event": str,
            "ts": int,
            "currency": field("properties", {"currency": str}, json=True),
            "items": [{"sku": str, "cents": field("cents", int, lenient=True), "qty": int}],
        },
        event_time="ts",
        unit="epoch",
        watermark=bounded("0s"),
        idle_after="1h",
    ).filter(col("event") == "purchase")
    items = events.explode("items").with_columns(
        sku=field("items.sku"), cents=field("items.cents") * field("items.qty")
    )
    hourly(items, "sku", "cents", "clicks")


def orders(pipeline: Pipeline, topic: str) -> None:
    """Changes of a table with the schema beside them: dates, instants and decimals by type."""
    changes = pipeline.source(
        topic,
        schema={
            "id": int,
            "made": datetime,
            "due": date,
            "price": field("price", float, lenient=True),
        },
        format="debezium-json",
        event_time="made",
        watermark=bounded("0s"),
        idle_after="1h",
    ).filter(col("due") >= col("made").dt.date())
    hourly(changes, "due", "price", "orders")


SHAPES = {
    "github": github,
    "cloudevents": cloudevents,
    "debezium": debezium,
    "logstash": logstash,
    "taxi": taxi,
    "sensors": sensors,
    "access": access,
    "clicks": clicks,
    "orders": orders,
}


def build(name: str) -> Pipeline:
    """Return the pipeline; each shape has the topic ``NAME-SHAPE`` and the output ``SHAPE``."""
    pipeline = Pipeline(name, partitions=1)
    for shape, declare in SHAPES.items():
        declare(pipeline, f"{name}-{shape}")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "shapes"))
