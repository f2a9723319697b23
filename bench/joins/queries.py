"""The joins that run on a broker: orders and payments within a time, orders with a table.

Each order and each payment is of one of ``USERS`` users.  With ``ROWS_PER_S`` rows in a second of
event time, a row has one partner of the other side within 10 s, on average.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from bench.nexmark.arrival import partition_of, with_positions
from bench.nexmark.flink.sql import FlinkQuery
from bench.nexmark.query import RESULTS, Query, Streams

ORDERS, PAYMENTS = "orders", "payments"

USERS = 100_000
ROWS_PER_S = 10_000
DISORDER_MS = 2_000
_START_MS = 1_700_000_000_000
_SCHEMAS: Mapping[str, Mapping[str, type]] = {
    ORDERS: {"user": str, "price": int},
    PAYMENTS: {"user": str, "paid": int},
}


def events(total: int, partitions: int, seed: int) -> Mapping[str, pl.DataFrame]:
    """Return events by kind, half of each, out of order but never late, in order of arrival."""
    draw = np.random.default_rng(seed)
    made = {}
    for kind, schema in _SCHEMAS.items():
        now_ms = _START_MS + np.arange(0, total, 2) * 1_000 // ROWS_PER_S
        user = draw.integers(0, USERS, now_ms.size)
        rows = pl.DataFrame({"number": user}).select(
            pl.format("u{}", "number").alias("user"),
            pl.Series([*schema][1], draw.integers(1, 10_000, now_ms.size)),
            pl.Series("at", now_ms - draw.integers(0, DISORDER_MS, now_ms.size)),
            partition_of(user, partitions),
        )
        made[kind] = with_positions(rows)
    return made


def _within(streams: Streams) -> None:
    payments = streams[PAYMENTS].key_by("user")
    streams[ORDERS].key_by("user").join(payments, within=("-10s", "10s")).to(RESULTS)


def _table(streams: Streams) -> None:
    payments = streams[PAYMENTS].key_by("user").table(keep="1d")
    streams[ORDERS].key_by("user").join(payments, how="left").to(RESULTS)


JOINS: Mapping[str, Query] = {
    "within": Query(
        "orders and payments of a user within 10 s",
        (ORDERS, PAYMENTS),
        _within,
        'select o."user", price, o.ts, paid, p.ts from orders o join payments p '
        'on o."user" = p."user" and p.ts between o.ts - 10000 and o.ts + 10000',
        'select "user", price, "at", paid, at_right from results',
        _SCHEMAS,
    ),
    "table": Query(
        "orders with the payment of the user that was the last one at that time",
        (ORDERS, PAYMENTS),
        _table,
        # Of payments of one millisecond, another column would have to decide.
        'select o."user", price, o.ts, p.ts from orders o asof left join payments p '
        'on o."user" = p."user" and o.ts >= p.ts',
        'select "user", price, "at", at_right from results',
        _SCHEMAS,
    ),
}

FLINK: Mapping[str, FlinkQuery] = {
    "within": FlinkQuery(
        "`user` STRING, price BIGINT, `at` BIGINT, paid BIGINT, at_right BIGINT",
        "SELECT o.`user`, o.price, o.`at`, p.paid, p.`at` FROM orders o JOIN payments p "
        "ON o.`user` = p.`user` "
        "AND p.ts BETWEEN o.ts - INTERVAL '10' SECOND AND o.ts + INTERVAL '10' SECOND",
        JOINS["within"].results,
    ),
}
