"""Flink SQL of the queries that filter and reshape bids one by one."""

from collections.abc import Mapping

from bench.nexmark.flink.sql import FlinkQuery
from bench.nexmark.rows import ROWS

_EUROS = "price * CAST(0.908 AS DOUBLE)"
_HOUR = "MOD(`at` / 3600000, 24)"
_CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, "


def _query(name: str, columns: str, select: str) -> FlinkQuery:
    return FlinkQuery(columns, select, ROWS[name].results)


FLINK_ROWS: Mapping[str, FlinkQuery] = {
    "q0": _query(
        "q0",
        f"{_BID}url STRING, extra STRING, `at` BIGINT",
        "SELECT auction, bidder, price, channel, url, extra, `at` FROM bids",
    ),
    "q1": _query(
        "q1",
        "auction BIGINT, bidder BIGINT, price DOUBLE, `at` BIGINT",
        f"SELECT auction, bidder, {_EUROS}, `at` FROM bids",
    ),
    "q2": _query(
        "q2",
        "auction BIGINT, price BIGINT",
        "SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0",
    ),
    "q14": _query(
        "q14",
        "auction BIGINT, bidder BIGINT, price DOUBLE, kind STRING, `at` BIGINT, extra STRING, "
        "letters BIGINT",
        f"SELECT auction, bidder, {_EUROS}, CASE WHEN {_HOUR} BETWEEN 8 AND 18 THEN 'dayTime' "
        f"WHEN {_HOUR} <= 6 OR {_HOUR} >= 20 THEN 'nightTime' ELSE 'otherTime' END, `at`, extra, "
        "CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) FROM bids "
        f"WHERE {_EUROS} > 1000000 AND {_EUROS} < 50000000",
    ),
    "q21": _query(
        "q21",
        f"{_BID}channel_id STRING",
        "SELECT auction, bidder, price, channel, CASE WHEN LOWER(channel) = 'apple' THEN '0' "
        "WHEN LOWER(channel) = 'google' THEN '1' WHEN LOWER(channel) = 'facebook' THEN '2' "
        f"WHEN LOWER(channel) = 'baidu' THEN '3' ELSE {_CHANNEL_ID} END FROM bids WHERE "
        "LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu') "
        f"OR {_CHANNEL_ID} IS NOT NULL",
    ),
    "q22": _query(
        "q22",
        f"{_BID}dir1 STRING, dir2 STRING, dir3 STRING",
        "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), "
        "SPLIT_INDEX(url, '/', 4), SPLIT_INDEX(url, '/', 5) FROM bids",
    ),
}
