"""Orders and their payments: all of both, with corrections, and sums of those that are paid."""

import json
import os

from tidemark import Pipeline, bounded, col, count, hopping, on_close, session, tumbling
from tidemark import sum as total


def build(
    name: str,
    partitions: int = 3,
    *,
    seconds: int = 10,
    semi: bool = False,
    avro: bool = False,
    kinds: bool = False,
) -> Pipeline:
    """Return the pipeline; ``seconds``: how long an order waits for its payment.

    ``semi``: adds the orders that have a payment.  ``avro``: the format of all rows.  ``kinds``:
    adds the other kinds of joins: in windows, in sessions, right and anti joins, and the payments
    of each order in one row.
    """
    pipeline = Pipeline(name, partitions=partitions)
    orders = pipeline.source(
        f"{name}-orders",
        schema={"id": str, "at": int, "price": int},
        event_time="at",
        watermark=bounded("2s"),
        idle_after="1h",
    ).key_by(order="id")
    payments = pipeline.source(
        f"{name}-payments",
        schema={"order": str, "at": int, "paid": int},
        event_time="at",
        watermark=bounded("2s"),
        idle_after="1h",
    ).key_by("order")
    every = orders.join(
        payments,
        within=("-1s", f"{seconds}s"),
        how="full",
        allowed_lateness="20s",
        trigger=on_close(),
    )
    every.to("all", format="avro" if avro else "json")
    paid = orders.join(payments, within=("-1s", f"{seconds}s"), on=col("paid") >= col("price"))
    sums = paid.key_by("order").window(tumbling("10s"))
    sums.aggregate(n=count(), paid=total("paid")).to("sums")
    if semi:
        orders.join(payments, within="20s", how="semi").to("semi")
    if kinds:
        orders.join(payments, window=hopping("20s", "10s"), how="left").to("hopping")
        visits = orders.join(payments, window=session("3s"), how="full", allowed_lateness="5s")
        visits.to("visits")
        each = orders.join(payments, within=("0s", "10s"), how="left")
        each.aggregate(paid=total("paid")).to("each")
        each.first(by="paid").to("least")
        orders.join(payments, keep="20s", how="right").to("right")
        orders.join(payments, within="5s", how="anti", allowed_lateness="5s").to("unpaid")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "joined"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
