"""Trades with the quote of their time, from a topic in the order of keys."""

import json
import os

from tidemark import Pipeline, bounded, col


def build(name: str, partitions: int = 2, *, arrival: bool = False, keep: str = "20s") -> Pipeline:
    """Return the pipeline; ``keep``: how long the table keeps a quote.

    ``arrival``: adds the trades with the quotes that came before them.
    """
    pipeline = Pipeline(name, partitions=partitions)
    trades = pipeline.source(
        f"{name}-trades",
        schema={"symbol": str, "at": int, "size": int},
        event_time="at",
        watermark=bounded("1s"),
        idle_after="1h",
    ).key_by("symbol")
    quotes = pipeline.source(
        f"{name}-quotes",
        schema={"symbol": str, "at": int, "price": int, "op": str},
        event_time="at",
        watermark=bounded("1s"),
        idle_after="1h",
    ).key_by("symbol")
    table = quotes.table(keep=keep, deleted=col("op") == "d")
    trades.join(table, how="left").to("priced")
    if arrival:
        trades.join(table, how="left", wait="arrival").to("at-once")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "tabled"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
