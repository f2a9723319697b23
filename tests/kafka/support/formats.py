"""A pipeline with a source of each format; all rows have the columns id, at and v."""

import os
from typing import Any

from tests.support.protobuf import READING_SET
from tidemark import Pipeline, avro, bounded, count, csv, field, tumbling
from tidemark import sum as total
from tidemark.serde.formats.source_format import ProtobufFormat

READER = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": "long", "aliases": ["time"]},
        {"name": "v", "type": "double", "default": 100.0},
    ],
}
"""The source's schema of framed Avro; writers have others."""

COLUMNS = {"id": str, "at": int, "v": float}
SOURCES: dict[str, tuple[Any, dict[str, Any]]] = {
    "avro": (avro(READER, framed=True), COLUMNS),
    "avro-plain": (avro(READER), COLUMNS),
    "csv": (csv(["v", "id", "at"], delimiter=";"), COLUMNS),
    "debezium-json": (
        "debezium-json",
        {"id": str, "at": field("__source.ts_ms", int), "v": field("qty", float)},
    ),
    "debezium-avro": ("debezium-avro", {"id": str, "at": field("__ts_ms", int), "v": float}),
    "cloudevents": (
        "cloudevents",
        {"id": field("subject", str), "at": field("data.at", int), "v": field("data.v", float)},
    ),
    "protobuf": (
        ProtobufFormat(READING_SET, "sensors.Reading", framed=True),
        {"id": str, "at": int, "v": field("limit", float)},
    ),
    "list": ("json", {"id": str, "at": field("readings.at", int), "v": field("readings.v", float)}),
}


def build(name: str) -> Pipeline:
    """Return the pipeline; each format has the topic ``NAME-FORMAT`` and the output ``FORMAT``."""
    pipeline = Pipeline(name, partitions=1)
    for form, (chosen, schema) in SOURCES.items():
        source = pipeline.source(
            f"{name}-{form}",
            schema=schema,
            format=chosen,
            explode="readings" if form == "list" else None,
            event_time="at",
            watermark=bounded("2s"),
            idle_after="1h",
        )
        windows = source.key_by("id").window(tumbling("10s"))
        windows.aggregate(n=count(), v=total("v")).to(form)
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "formats"))
