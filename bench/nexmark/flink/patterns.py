"""Flink SQL of the queries that match patterns, with the limits in time that the pipelines have."""

from collections.abc import Mapping

from bench.nexmark.flink.sql import FlinkQuery
from bench.nexmark.patterns import CHEAP, DROP, DROP_WITHIN_S, PATTERNS, WITHIN_S, apart

_WANTED = apart("first, last")
"""The match that begins first counts."""


def _query(
    name: str, columns: str, measures: str, skip: str, pattern: str, define: str, within_s: int
) -> FlinkQuery:
    """Return a query whose results have the key and ``columns``, all of them integers."""
    shown = ", ".join(f"{column} BIGINT" for column in ("auction", "bidder", *columns.split()))
    return FlinkQuery(
        shown,
        "SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY auction, bidder ORDER BY ts "
        f"MEASURES {measures} ONE ROW PER MATCH AFTER MATCH SKIP {skip} "
        f"PATTERN ({pattern}) WITHIN INTERVAL '{within_s}' SECOND DEFINE {define})",
        PATTERNS[name].results,
        _WANTED.get(name),
    )


def _cheap(name: str, skip: str) -> FlinkQuery:
    return _query(
        name,
        "first_at last_at mean",
        "FIRST(A.`at`) AS first_at, LAST(A.`at`) AS last_at, AVG(A.price) AS mean",
        skip,
        "A+ B",
        f"A AS AVG(A.price) < {CHEAP}",
        WITHIN_S,
    )


FLINK_PATTERNS: Mapping[str, FlinkQuery] = {
    "cep0": _query(
        "cep0",
        "start_at low_at up_at",
        "S.`at` AS start_at, LAST(D.`at`) AS low_at, U.`at` AS up_at",
        "TO LAST U",
        "S D+ U",
        "D AS (LAST(D.price, 1) IS NULL AND D.price < S.price) OR D.price < LAST(D.price, 1), "
        "U AS U.price > LAST(D.price, 1)",
        WITHIN_S,
    ),
    "cep1": _cheap("cep1", "PAST LAST ROW"),
    "cep2": _cheap("cep2", "TO NEXT ROW"),
    "cep3": _query(
        "cep3",
        "drop_at fall",
        "C.`at` AS drop_at, A.price - C.price AS fall",
        "PAST LAST ROW",
        "A B* C",
        f"B AS B.price > A.price - {DROP}, C AS C.price < A.price - {DROP}",
        DROP_WITHIN_S,
    ),
}
