"""Trades and the quotes of their time: a pipeline with a table, and records for it."""

from tests.runtime.ingest.in_memory import record
from tidemark import Pipeline, bounded, count, tumbling
from tidemark.partition import Partition

TRADES, QUOTES = Partition("trades", 0), Partition("quotes", 0)
LOG, OTHER = "p.by-symbol.log", "p.by-venue.log"


def built(*, other=False, table=True, windows=False):
    """Return trades with quotes; ``other``: also with quotes of another key, in a new log."""
    pipeline = Pipeline("p", partitions=2)
    types = {"at": int, "symbol": str, "venue": str, "price": int}
    trades, quotes = (
        pipeline.source(
            topic, schema=types, event_time="at", watermark=bounded("10ms"), idle_after="5s"
        )
        for topic in ("trades", "quotes")
    )
    keys = ("symbol", *["venue"] * other)
    for key in keys:
        versions = quotes.key_by(key)
        if table:
            joined = trades.key_by(key).join(
                versions.table(keep="1s", tombstones=key == "symbol"), how="left"
            )
        else:
            joined = trades.key_by(key).join(versions, within="1s")
        joined.to(f"priced-{key}")
    if windows:
        quotes.key_by("symbol").window(tumbling("1s")).aggregate(n=count()).to("quotes-a-second")
    return pipeline.plan()


PLAN = built()

# In the order of keys, as a compacted topic: all of a are before all of b.
QUOTED = [
    *(record(at, symbol="a", venue="x", price=at) for at in (1_000, 5_000, 9_000)),
    *(record(at, symbol="b", venue="x", price=at) for at in (800, 4_000, 8_500)),
]
TRADED = [
    record(at, symbol=symbol, venue="x")
    for at in (1_500, 4_100, 5_200, 8_600, 9_500)
    for symbol in "ab"
]
