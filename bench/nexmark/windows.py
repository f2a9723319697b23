"""Queries on windows of event time and of processing time."""

from collections.abc import Mapping

import polars as pl

from bench.nexmark.generator import BIDS
from bench.nexmark.query import RESULTS, Query, Streams
from tidemark import (
    col,
    count,
    hopping,
    max,
    processing_time,
    same,
    session,
    top_k,
    tumbling,
)


def _q5(streams: Streams) -> None:
    bids = streams[BIDS].key_by("auction").window(hopping("10s", "2s"))
    counts = bids.aggregate(bids=count())
    # No key is hot: one row an auction and window comes here, not one a bid.
    hottest = top_k("auction", 1, by="bids", ties=True)
    counts.key_by().window(same()).aggregate(hottest=hottest, bids=max("bids")).to(RESULTS)


_Q5 = """
with windows as (
    select auction, s, count(*) as bids
    from (
      select *, unnest(range(ts // 2000 * 2000 - 8000, ts // 2000 * 2000 + 1, 2000)) as s
      from bids
    )
    where s + 10000 > w group by auction, s
  )
select s, auction, bids from windows qualify rank() over (partition by s order by bids desc) = 1
"""


def _q7(streams: Streams) -> None:
    bid = pl.struct("auction", "bidder", "price", "at", "extra")
    bids = streams[BIDS].with_columns(bid=bid).key_by("auction").window(tumbling("10s"))
    dearest = bids.aggregate(bid=top_k("bid", 1, by="price", ties=True))
    rows = dearest.explode("bid").select(bid=col("bid").struct.field("value"))
    prices = rows.with_columns(price=col("bid").struct.field("price"))
    best = top_k("bid", 1, by="price", ties=True)
    prices.key_by().window(tumbling("10s")).aggregate(best=best).to(RESULTS)


def _q11(streams: Streams) -> None:
    bids = streams[BIDS].key_by("bidder")
    bids.window(session("10s")).aggregate(bids=count()).to(RESULTS)


_Q11 = """
with timely as (select * from bids where ts >= w),
  begun as (
    select *, ts - lag(ts) over (partition by bidder order by ts) < 10000 as goes_on from timely
  ),
  numbered as (
    select *, count(*) filter (goes_on is not true)
      over (partition by bidder order by ts, part, pos) as session
    from begun
  )
select bidder, min(ts), max(ts) + 10000, count(*) from numbered group by bidder, session
"""


def _q12(streams: Streams) -> None:
    bids = streams[BIDS].key_by("bidder")
    bids.window(processing_time(tumbling("10s"))).aggregate(bids=count()).to(RESULTS)


WINDOWS: Mapping[str, Query] = {
    "q5": Query(
        "the auctions with most bids in each window; all of those that have as many",
        (BIDS,),
        _q5,
        _Q5,
        'select "start", unnest(hottest).value, bids from results',
    ),
    "q7": Query(
        "the bids with the highest price in each window",
        (BIDS,),
        _q7,
        "select ts // 10000 * 10000, auction, bidder, price, ts, extra from bids "
        "where ts // 10000 * 10000 + 10000 > w "
        "qualify rank() over (partition by ts // 10000 order by price desc) = 1",
        "select s, b.auction, b.bidder, b.price, b.at, b.extra from "
        '(select "start" as s, unnest(best).value as b from results)',
    ),
    "q11": Query(
        "bids of each bidder in each session",
        (BIDS,),
        _q11,
        _Q11,
        'select bidder, "start", "end", bids from results',
    ),
    "q12": Query(
        "bids of each bidder in 10 s of processing time; the check adds the windows up",
        (BIDS,),
        _q12,
        "select bidder, count(*) from bids group by bidder",
        "select bidder, sum(bids)::bigint from results group by bidder",
    ),
}
