"""Flink SQL of the queries that join, with the bounds in time that the pipelines have."""

from collections.abc import Mapping

from bench.nexmark.flink.sql import FlinkQuery
from bench.nexmark.highest_bids import HIGHEST_BIDS
from bench.nexmark.joins import JOINS

_BID = "b.auction, b.bidder, b.price, b.channel, b.url, b.extra, b.`at`"


def _near(one: str, other: str, seconds: int) -> str:
    """Return the condition that two rows are at most ``seconds`` apart."""
    interval = f"INTERVAL '{seconds}' SECOND(3)"
    return f"{one}.ts BETWEEN {other}.ts - {interval} AND {other}.ts + {interval}"


_BIDS_OF_AUCTIONS = (
    "FROM auctions a JOIN bids b ON a.id = b.auction "
    "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' SECOND AND b.`at` <= a.expires"
)


def _in_windows(columns: str, table: str) -> str:
    """Return the distinct values of columns in each window of 10 s."""
    bounds = f"{columns}, window_start, window_end"
    windows = f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    return f"(SELECT {bounds} FROM {windows} GROUP BY {bounds})"


FLINK_JOINS: Mapping[str, FlinkQuery] = {
    "q3": FlinkQuery(
        "name STRING, city STRING, state STRING, id BIGINT",
        "SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p "
        f"ON a.seller = p.id AND {_near('a', 'p', 120)} "
        "WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')",
        JOINS["q3"].results,
    ),
    "q4": FlinkQuery(
        "category BIGINT, mean DOUBLE, PRIMARY KEY (category) NOT ENFORCED",
        "SELECT category, CAST(SUM(price) AS DOUBLE) / COUNT(*) FROM (SELECT a.id, a.category, "
        f"MAX(b.price) AS price {_BIDS_OF_AUCTIONS} GROUP BY a.id, a.category) GROUP BY category",
        HIGHEST_BIDS["q4"].results,
    ),
    "q8": FlinkQuery(
        "person BIGINT, name STRING, begins TIMESTAMP(3)",
        f"SELECT p.id, p.name, p.window_start FROM {_in_windows('id, name', 'persons')} p "
        f"JOIN {_in_windows('seller', 'auctions')} a ON p.id = a.seller "
        "AND p.window_start = a.window_start AND p.window_end = a.window_end",
        "select person, name, epoch_ms(begins::timestamp) from results",
    ),
    "q9": FlinkQuery(
        "auction BIGINT, item STRING, seller BIGINT, category BIGINT, bidder BIGINT, "
        "price BIGINT, channel STRING, url STRING, at_right BIGINT, extra STRING, "
        "PRIMARY KEY (auction) NOT ENFORCED",
        "SELECT id, item, seller, category, bidder, price, channel, url, bid_at, extra FROM "
        "(SELECT a.id, a.item, a.seller, a.category, b.bidder, b.price, b.channel, b.url, "
        "b.`at` AS bid_at, b.extra, ROW_NUMBER() OVER "
        f"(PARTITION BY a.id ORDER BY b.price DESC, b.ts) AS place {_BIDS_OF_AUCTIONS}) "
        "WHERE place <= 1",
        HIGHEST_BIDS["q9"].results,
    ),
    "q20": FlinkQuery(
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING, "
        "`at` BIGINT, seller BIGINT, category BIGINT, `initial` BIGINT, reserve BIGINT, "
        "item STRING, description STRING, at_right BIGINT, expires BIGINT",
        f"SELECT {_BID}, a.seller, a.category, a.`initial`, a.reserve, a.item, a.description, "
        "a.`at`, a.expires FROM bids b JOIN auctions a "
        f"ON b.auction = a.id AND {_near('b', 'a', 10)} WHERE a.category = 10",
        JOINS["q20"].results,
    ),
    "q23": FlinkQuery(
        "bidder BIGINT, auction BIGINT, price BIGINT, `at` BIGINT, name STRING, at_person BIGINT, "
        "id_auction BIGINT, item STRING, at_auction BIGINT",
        "SELECT b.bidder, b.auction, b.price, b.`at`, p.name, p.`at`, a.id, a.item, a.`at` "
        f"FROM bids b JOIN persons p ON b.bidder = p.id AND {_near('b', 'p', 20)} "
        f"JOIN auctions a ON b.bidder = a.seller AND {_near('a', 'b', 20)}",
        JOINS["q23"].results,
        # A pair has no event time in Flink, so the bid stands for it.
        JOINS["q23"].sql.replace("greatest(b.ts, p.ts)", "b.ts"),
    ),
}
