"""Flink SQL of the queries that join, with the bounds in time that the pipelines have."""

from collections.abc import Mapping

from bench.nexmark.flink.sql import FlinkQuery
from bench.nexmark.joins import JOINS

_BID = "b.auction, b.bidder, b.price, b.channel, b.url, b.extra, b.`at`"


def _near(one: str, other: str, seconds: int) -> str:
    """Return the condition that two rows are at most ``seconds`` apart."""
    interval = f"INTERVAL '{seconds}' SECOND(3)"
    return f"{one}.ts BETWEEN {other}.ts - {interval} AND {other}.ts + {interval}"


FLINK_JOINS: Mapping[str, FlinkQuery] = {
    "q3": FlinkQuery(
        "name STRING, city STRING, state STRING, id BIGINT",
        "SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p "
        f"ON a.seller = p.id AND {_near('a', 'p', 120)} "
        "WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')",
        JOINS["q3"].results,
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
