"""A pipeline over nested records: orders with items, whose key and event time are inside."""

import json
import os
from typing import Any

from tidemark import RAW, Pipeline, bounded, col, collect, count, field, last, tumbling
from tidemark import sum as total

T = 1_700_000_000_000
END = T + 3_600_000


def order(n: int, **others: Any) -> dict[str, Any]:
    return {
        "meta": {"@at": T + n * 500},
        "user": {"id": f"u{n % 5}", "tags": [None, "é"] if n % 2 else None},
        "items": [{"price": n / 4}, None, {"price": 1, "size": n}][: n % 4],
        "labels": {"a": n, "b": None},
        "note": json.dumps({"n": n}),
        **({"details": {"level": f"{n}.0"}} if n % 3 else {}),
        **others,
    }


def records() -> list[bytes]:
    documents: list[Any] = [order(n) for n in range(200)]
    documents += [[order(n), order(n + 1, user={"id": "nobody"})] for n in range(200, 300, 2)]
    documents += [order(300, details={"level": "high"}), [order(301), {"user": 5}], []]
    late = order(1)
    return [json.dumps(each).encode() for each in (*documents, late)]


def ended(name: str) -> bytes:
    return json.dumps(order(0, meta={"@at": END}, user={"id": name})).encode()


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
