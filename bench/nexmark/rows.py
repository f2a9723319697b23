"""Queries that filter and reshape bids one by one: rows without a window."""

from collections.abc import Callable, Mapping

import polars as pl

from bench.nexmark.generator import BIDS
from bench.nexmark.query import RESULTS, Query, Streams
from tidemark import col, lit, when
from tidemark.language.stream import Stream

_HOUR_MS = 3_600_000
_EUROS = 0.908
_ALL = "auction, bidder, price, channel, url, extra"
_CHANNELS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
_CHANNEL_ID = "channel_id=([^&]*)"


def _q0(bids: Stream) -> Stream:
    return bids


def _q1(bids: Stream) -> Stream:
    return bids.with_columns(price=col("price") * _EUROS)


def _q2(bids: Stream) -> Stream:
    return bids.filter(col("auction") % 123 == 0).select("auction", "price")


def _q10(bids: Stream) -> Stream:
    at = pl.from_epoch("at", "ms")
    return bids.with_columns(day=at.dt.strftime("%Y-%m-%d"), minute=at.dt.strftime("%H:%M"))


def _q14(bids: Stream) -> Stream:
    hour = col("at") // _HOUR_MS % 24
    day = when(hour.is_between(8, 18)).then(lit("dayTime"))
    kind = day.when((hour <= 6) | (hour >= 20)).then(lit("nightTime"))
    price = col("price") * _EUROS
    return bids.filter((price > 1_000_000) & (price < 50_000_000)).select(
        *("auction", "bidder", "at", "extra"),
        price=price,
        kind=kind.otherwise(lit("otherTime")),
        letters=col("extra").str.count_matches("c"),
    )


def _q21(bids: Stream) -> Stream:
    known = col("channel").str.to_lowercase()
    known = known.replace_strict(_CHANNELS, default=None, return_dtype=pl.String())
    of_url = col("url").str.extract(f"(?:&|^){_CHANNEL_ID}")
    named = bids.with_columns(channel_id=known.fill_null(of_url))
    return named.filter(col("channel_id").is_not_null()).select(
        "auction", "bidder", "price", "channel", "channel_id"
    )


def _q22(bids: Stream) -> Stream:
    parts = col("url").str.split("/")
    folders = {f"dir{n}": parts.list.get(n + 2, null_on_oob=True) for n in (1, 2, 3)}
    return bids.select("auction", "bidder", "price", "channel", **folders)


def _query(says: str, made: Callable[[Stream], Stream], sql: str, results: str) -> Query:
    def declare(streams: Streams) -> None:
        made(streams[BIDS]).to(RESULTS)

    return Query(says, (BIDS,), declare, sql, results)


_Q14_PRICE = f"price * {_EUROS}::double"
_CASES = " ".join(f"when '{name}' then '{number}'" for name, number in _CHANNELS.items())
_Q21 = (
    f"case lower(channel) {_CASES} "
    f"else nullif(regexp_extract(url, '(&|^){_CHANNEL_ID}', 2), '') end"
)

ROWS: Mapping[str, Query] = {
    "q0": _query(
        "bids as they are",
        _q0,
        f"select {_ALL}, ts from bids",
        f'select {_ALL}, "at" from results',
    ),
    "q1": _query(
        "bids with prices in euros",
        _q1,
        f"select auction, bidder, price * {_EUROS}::double, ts from bids",
        'select auction, bidder, price, "at" from results',
    ),
    "q2": _query(
        "bids on some auctions",
        _q2,
        "select auction, price from bids where auction % 123 = 0",
        "select auction, price from results",
    ),
    "q10": _query(
        "bids with their day and minute, for files by day and minute",
        _q10,
        f"select {_ALL}, strftime(make_timestamp(ts * 1000), '%Y-%m-%d'), "
        "strftime(make_timestamp(ts * 1000), '%H:%M') from bids",
        f'select {_ALL}, "day", "minute" from results',
    ),
    "q14": _query(
        "bids of some prices, by time of day, with the number of a letter in them",
        _q14,
        f"select auction, bidder, {_Q14_PRICE}, case when ts // {_HOUR_MS} % 24 between 8 and 18 "
        f"then 'dayTime' when ts // {_HOUR_MS} % 24 <= 6 or ts // {_HOUR_MS} % 24 >= 20 "
        "then 'nightTime' else 'otherTime' end, ts, extra, "
        "length(extra) - length(replace(extra, 'c', '')) from bids "
        f"where {_Q14_PRICE} > 1000000 and {_Q14_PRICE} < 50000000",
        'select auction, bidder, price, kind, "at", extra, letters::bigint from results',
    ),
    "q21": _query(
        "bids with the number of their channel, known or from the url",
        _q21,
        f"select auction, bidder, price, channel, {_Q21} from bids where ({_Q21}) is not null",
        "select auction, bidder, price, channel, channel_id from results",
    ),
    "q22": _query(
        "bids with the folders of their url",
        _q22,
        "select auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5), "
        "split_part(url, '/', 6) from bids",
        "select auction, bidder, price, channel, dir1, dir2, dir3 from results",
    ),
}
