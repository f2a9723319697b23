"""A pipeline over nested records: orders with items, whose key and event time are inside."""

import os

from tidemark import RAW, Pipeline, bounded, col, collect, count, field, last, tumbling
from tidemark import sum as total


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=2)
    orders = pipeline.source(
        f"{name}-orders",
        schema={
            "meta": {"at": field("@at", int)},
            "user": {"id": str, "tags": list[str]},
            "items": [{"price": float, "size": int | None}],
            "labels": dict[str, int],
            "note": field("note", {"n": int}, json=True),
            "level": field("details.level", int, lenient=True, default=1),
            "body": RAW,
            "bytes": field(RAW, bytes),
        },
        event_time="meta.at",
        watermark=bounded("2s"),
        idle_after="1h",
    ).filter(field("user.id") != "nobody")
    orders.key_by("user.id").window(tumbling("10s")).aggregate(
        orders=count(),
        level=total("level"),
        items=collect("items"),
        labels=last("labels"),
        note=last("note"),
    ).to("orders")
    orders.explode("items").with_columns(price=field("items.price"), bytes=col("body")).key_by(
        buyer="user.id"
    ).window(tumbling("10s")).aggregate(spent=total("price"), user=last("user")).to(
        "spent", format="avro"
    )
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "nested"))
