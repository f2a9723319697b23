"""Orders as changes of a database (Debezium): which paid order was not shipped within a day."""

from tidemark import Pipeline, bounded, col, field, sequence, step

orders = Pipeline("orders")

changes = orders.source(
    "shop.public.orders",
    schema={
        "id": int,
        "customer": str,
        "status": str,
        "op": field("__op", str),
        "at": field("__source.ts_ms", int),
    },
    format="debezium-json",
    event_time="at",
    watermark=bounded("10s"),
).filter(col("op").is_in(["c", "u"]))

paid = step(col("status") == "paid")
shipped = step(col("status") == "shipped")

in_time = (
    changes.key_by("id")
    .match(sequence(paid=paid, shipped=shipped).within("1d"))
    .select(customer="paid.customer", paid_at="paid.at", shipped_at="shipped.at")
)
in_time.to("shipped-in-time")
in_time.timeouts.select("id", "customer", "paid_at").to("not-shipped")
