"""Queries that aggregate a day, or all rows so far."""

from collections.abc import Mapping

import polars as pl

from bench.nexmark.generator import BIDS
from bench.nexmark.query import RESULTS, Query, Streams
from tidemark import (
    col,
    count,
    count_distinct,
    every,
    last,
    max,
    mean,
    min,
    on_close,
    sum,
    top_k,
    tumbling,
)
from tidemark.core.aggregates.aggregate import AggregateFunction

_CHEAP, _DEAR = 10_000, 1_000_000
"""Prices below the first are of class 1, prices from the second on of class 3."""
_CLASSES = (1, 2, 3)

_DAY_MS = 86_400_000
_DAY = tumbling("1d")
_SO_FAR = on_close(early=every(processing_time="1s"))

_TIMELY = "select * from bids where (ts // 86400000 + 1) * 86400000 > w"
_OF_CLASS = {
    1: f"filter (price < {_CHEAP})",
    2: f"filter (price >= {_CHEAP} and price < {_DEAR})",
    3: f"filter (price >= {_DEAR})",
}
_BIDS = ", ".join(["count(*)", *(f"count(*) {of}" for of in _OF_CLASS.values())])
_DISTINCT = ", ".join(
    f"count(distinct {column}) {of}"
    for column in ("bidder", "auction")
    for of in ("", *_OF_CLASS.values())
)
_BIDS_SHOWN = ", ".join(["bids", *(f"bids_{each}" for each in _CLASSES)])
_DISTINCT_SHOWN = ", ".join(
    name for what in ("bidders", "auctions") for name in (what, *(f"{what}_{n}" for n in _CLASSES))
)


def _of_class(number: int) -> pl.Expr:
    price = col("price")
    return {1: price < _CHEAP, 2: price.is_between(_CHEAP, _DEAR - 1), 3: price >= _DEAR}[number]


def _bids_by_class() -> dict[str, AggregateFunction]:
    classes = {f"bids_{each}": count(where=_of_class(each)) for each in _CLASSES}
    return {"bids": count(), **classes}


def _distinct_by_class() -> dict[str, AggregateFunction]:
    found: dict[str, AggregateFunction] = {}
    for what, column in (("bidders", "bidder"), ("auctions", "auction")):
        found[what] = count_distinct(column)
        for each in _CLASSES:
            found[f"{what}_{each}"] = count_distinct(column, where=_of_class(each))
    return found


def _q15(streams: Streams) -> None:
    day = streams[BIDS].with_columns(day=col("at") // _DAY_MS).key_by("day")
    aggregates = {**_bids_by_class(), **_distinct_by_class()}
    day.window(_DAY, trigger=_SO_FAR).aggregate(**aggregates).to(RESULTS)


def _q16(streams: Streams) -> None:
    bids = streams[BIDS].with_columns(minute=col("at") // 60_000 % 1_440)
    days = bids.key_by("channel").window(_DAY, trigger=_SO_FAR)
    aggregates = {"minute": max("minute"), **_bids_by_class(), **_distinct_by_class()}
    days.aggregate(**aggregates).to(RESULTS)


def _q17(streams: Streams) -> None:
    days = streams[BIDS].key_by("auction").window(_DAY, trigger=_SO_FAR)
    prices = {"low": min("price"), "high": max("price"), "mean": mean("price"), "sum": sum("price")}
    days.aggregate(**_bids_by_class(), **prices).to(RESULTS)


def _q18(streams: Streams) -> None:
    bid = streams[BIDS].key_by("bidder", "auction")
    shown = {name: last(name) for name in ("price", "channel", "url", "at", "extra")}
    bid.aggregate(**shown).to(RESULTS)


def _q19(streams: Streams) -> None:
    bid = pl.struct("bidder", "price", "channel", "url", "at", "extra")
    bids = streams[BIDS].with_columns(bid=bid).key_by("auction")
    bids.aggregate(top=top_k("bid", 10, by="price")).to(RESULTS)


AGGREGATES: Mapping[str, Query] = {
    "q15": Query(
        "a day's bids, bidders and auctions, also by class of price",
        (BIDS,),
        _q15,
        f"select ts // 86400000, {_BIDS}, {_DISTINCT} from ({_TIMELY}) group by all",
        f"select day, {_BIDS_SHOWN}, {_DISTINCT_SHOWN} from results",
    ),
    "q16": Query(
        "the same by channel, with the last minute of the day",
        (BIDS,),
        _q16,
        f"select channel, max(ts // 60000 % 1440), {_BIDS}, {_DISTINCT} from ({_TIMELY}) "
        "group by channel, ts // 86400000",
        f'select channel, "minute", {_BIDS_SHOWN}, {_DISTINCT_SHOWN} from results',
    ),
    "q17": Query(
        "a day's bids and prices of each auction",
        (BIDS,),
        _q17,
        f"select auction, {_BIDS}, min(price), max(price), sum(price)::double / count(*), "
        f"sum(price)::bigint from ({_TIMELY}) group by auction, ts // 86400000",
        f"select auction, {_BIDS_SHOWN}, low, high, mean, sum from results",
    ),
    "q18": Query(
        "the last bid of each bidder in each auction",
        (BIDS,),
        _q18,
        "select bidder, auction, price, channel, url, ts, extra from bids qualify row_number() "
        "over (partition by bidder, auction order by ts desc, part desc, pos desc) = 1",
        'select bidder, auction, price, channel, url, "at", extra from results',
    ),
    "q19": Query(
        "the ten highest bids of each auction; of equal ones, the first by event time",
        (BIDS,),
        _q19,
        "select auction, list({price: price, bidder: bidder, ts: ts} order by price desc, ts, pos) "
        "from (select * from bids qualify row_number() over "
        "(partition by auction order by price desc, ts, part, pos) <= 10) group by auction",
        "select auction, list_transform(top, lambda x: "
        "{price: x.value.price, bidder: x.value.bidder, ts: x.value.at}) from results",
    ),
}
