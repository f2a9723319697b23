"""Flink SQL of the queries; it has the form that nexmark/nexmark describes."""

from collections.abc import Mapping

from bench.nexmark.flink.joins import FLINK_JOINS
from bench.nexmark.flink.patterns import FLINK_PATTERNS
from bench.nexmark.flink.rows import FLINK_ROWS
from bench.nexmark.flink.sql import FlinkQuery
from bench.nexmark.windows import WINDOWS

_CLASSES = {
    "": "",
    "_1": " FILTER (WHERE price < 10000)",
    "_2": " FILTER (WHERE price >= 10000 AND price < 1000000)",
    "_3": " FILTER (WHERE price >= 1000000)",
}
_BIDS = ", ".join(f"COUNT(*){of} AS bids{name}" for name, of in _CLASSES.items())
_DISTINCT = ", ".join(
    f"COUNT(DISTINCT {column}){of} AS {column}s{name}"
    for column in ("bidder", "auction")
    for name, of in _CLASSES.items()
)
_BIDS_COLUMNS = ", ".join(f"bids{name}" for name in _CLASSES)
_DISTINCT_COLUMNS = ", ".join(
    f"{column}s{name}" for column in ("bidder", "auction") for name in _CLASSES
)


def _numbers(names: str) -> str:
    """Return columns of integers."""
    return ", ".join(f"{name} BIGINT" for name in names.split(", "))


_HOP = "TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
_TUMBLE = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
_COUNTS = (
    "SELECT auction, window_start, window_end, COUNT(*) AS num "
    f"FROM {_HOP} GROUP BY auction, window_start, window_end"
)
_SAME_WINDOW = "a.window_start = b.window_start AND a.window_end = b.window_end"

FLINK: Mapping[str, FlinkQuery] = {
    **FLINK_ROWS,
    **FLINK_JOINS,
    **FLINK_PATTERNS,
    "q5": FlinkQuery(
        "begins TIMESTAMP(3), auction BIGINT, bids BIGINT",
        f"SELECT a.window_start, a.auction, a.num FROM ({_COUNTS}) a JOIN (SELECT window_start, "
        f"window_end, MAX(num) AS most FROM ({_COUNTS}) GROUP BY window_start, window_end) b "
        f"ON {_SAME_WINDOW} AND a.num = b.most",
        "select epoch_ms(begins::timestamp), auction, bids from results",
    ),
    "q7": FlinkQuery(
        "begins TIMESTAMP(3), auction BIGINT, bidder BIGINT, price BIGINT, `at` BIGINT, "
        "extra STRING",
        f"SELECT a.window_start, a.auction, a.bidder, a.price, a.`at`, a.extra FROM (SELECT * "
        f"FROM {_TUMBLE}) a JOIN (SELECT window_start, window_end, MAX(price) AS most "
        f"FROM {_TUMBLE} GROUP BY window_start, window_end) b "
        f"ON {_SAME_WINDOW} AND a.price = b.most",
        'select epoch_ms(begins::timestamp), auction, bidder, price, "at", extra from results',
    ),
    "q11": FlinkQuery(
        "bidder BIGINT, bids BIGINT, begins TIMESTAMP(3), ends TIMESTAMP(3)",
        "SELECT bidder, COUNT(*), window_start, window_end FROM TABLE(SESSION(TABLE bids "
        "PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY bidder, window_start, window_end",
        "select bidder, epoch_ms(begins::timestamp), epoch_ms(ends::timestamp), bids from results",
        # Two bids exactly a gap apart are in one session of Flink.
        WINDOWS["q11"].sql.replace("< 10000 as goes_on", "<= 10000 as goes_on"),
    ),
    "q15": FlinkQuery(
        f"{_numbers(f'at_day, {_BIDS_COLUMNS}, {_DISTINCT_COLUMNS}')}, "
        "PRIMARY KEY (at_day) NOT ENFORCED",
        f"SELECT `at` / 86400000 AS at_day, {_BIDS}, {_DISTINCT} FROM bids "
        "GROUP BY `at` / 86400000",
        f"select at_day, {_BIDS_COLUMNS}, {_DISTINCT_COLUMNS} from results",
    ),
    "q16": FlinkQuery(
        f"channel STRING, {_numbers(f'at_day, at_minute, {_BIDS_COLUMNS}, {_DISTINCT_COLUMNS}')}, "
        "PRIMARY KEY (channel, at_day) NOT ENFORCED",
        "SELECT channel, `at` / 86400000 AS at_day, MAX(MOD(`at` / 60000, 1440)) AS at_minute, "
        f"{_BIDS}, {_DISTINCT} FROM bids GROUP BY channel, `at` / 86400000",
        f"select channel, at_minute, {_BIDS_COLUMNS}, {_DISTINCT_COLUMNS} from results",
    ),
    "q17": FlinkQuery(
        f"{_numbers(f'auction, at_day, {_BIDS_COLUMNS}, low, high, total')}, mean DOUBLE, "
        "PRIMARY KEY (auction, at_day) NOT ENFORCED",
        f"SELECT auction, `at` / 86400000 AS at_day, {_BIDS}, MIN(price), MAX(price), SUM(price), "
        "CAST(SUM(price) AS DOUBLE) / COUNT(*) FROM bids GROUP BY auction, `at` / 86400000",
        f"select auction, {_BIDS_COLUMNS}, low, high, mean, total from results",
    ),
    "q18": FlinkQuery(
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `at` BIGINT, "
        "extra STRING, PRIMARY KEY (bidder, auction) NOT ENFORCED",
        "SELECT auction, bidder, price, channel, url, `at`, extra FROM (SELECT *, ROW_NUMBER() "
        "OVER (PARTITION BY bidder, auction ORDER BY ts DESC) AS place FROM bids) "
        "WHERE place <= 1",
        'select bidder, auction, "at" from results',
        # Flink leaves open which of several bids of one millisecond is the last.
        "select bidder, auction, max(ts) from bids group by all",
    ),
    "q19": FlinkQuery(
        "auction BIGINT, place BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
        "`at` BIGINT, extra STRING, PRIMARY KEY (auction, place) NOT ENFORCED",
        "SELECT auction, place, bidder, price, channel, url, `at`, extra FROM (SELECT *, "
        "ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bids) "
        "WHERE place <= 10",
        "select auction, list(price order by price desc) from results group by auction",
        "select auction, list(price order by price desc) from (select * from bids qualify "
        "row_number() over (partition by auction order by price desc) <= 10) group by auction",
    ),
}
