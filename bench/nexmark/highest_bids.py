"""Queries about the highest bid of each auction, from its start until it closes.

An auction closes when it expires, 10 s after its start at the latest.  With 500 events per second
(``--rate``), none expires later than that.
"""

from collections.abc import Mapping

from bench.nexmark.generator import AUCTIONS, BIDS
from bench.nexmark.joins import TIMELY
from bench.nexmark.query import RESULTS, Query, Streams
from tidemark import col, count, count_window, max, mean
from tidemark.language.joins.joined_stream import JoinedStream

_CLOSES = "least(expires, a.ts + 10000)"
_PAIRS = f"a join b on auction = a.id and b.ts between a.ts and {_CLOSES}"
_CLOSED = (
    "closed as (select any_value(seller) as seller, any_value(category) as category, "
    f"max({_CLOSES}) as done, max(price) as price from {_PAIRS} group by a.id)"
)
"""The auctions with bids, each with its seller, and the time and price at which it closes."""

_LAST_TEN = """last_ten as (
  select seller, count(*) over so_far - 10 as number, sum(price) over ten / 10 as mean,
    lag(done, 10) over so_far as before, first_value(done) over ten as first,
    done as last, lead(done) over so_far as after
  from closed
  window so_far as (partition by seller order by done rows unbounded preceding),
    ten as (partition by seller order by done rows 9 preceding)
  qualify count(*) over ten = 10
)"""
_IS_OPEN = "first is not distinct from before or last is not distinct from after"
"""Auctions that close in one millisecond have no order; here some are in the ten, some are not."""


def _with_bids(streams: Streams) -> JoinedStream:
    auctions = streams[AUCTIONS].key_by(auction="id")
    lasts = col("expires") - col("at")
    return auctions.join(streams[BIDS].key_by("auction"), within=("0s", lasts), max_within="10s")


def _q4(streams: Streams) -> None:
    closed = _with_bids(streams).aggregate(price=max("price"))
    closed.key_by("category").aggregate(mean=mean("price")).to(RESULTS)


def _q6(streams: Streams) -> None:
    closed = _with_bids(streams).aggregate(price=max("price")).key_by("seller")
    last_ten = closed.window(count_window(10, 1, order="event_time"))
    last_ten.aggregate(mean=mean("price"), auctions=count()).to(RESULTS)


def _q9(streams: Streams) -> None:
    _with_bids(streams).first(by=-col("price")).to(RESULTS)


HIGHEST_BIDS: Mapping[str, Query] = {
    "q4": Query(
        "the mean of the highest bids of closed auctions, by category",
        (AUCTIONS, BIDS),
        _q4,
        f"with {TIMELY}, {_CLOSED} "
        "select category, sum(price)::double / count(*) from closed group by category",
        "select category, mean from results",
    ),
    "q6": Query(
        "the mean of the highest bids of the last ten closed auctions of each seller",
        (AUCTIONS, BIDS),
        _q6,
        f"with {TIMELY}, {_CLOSED}, {_LAST_TEN} select seller, number, first, last + 1 as until, "
        f"case when {_IS_OPEN} then null else mean end as mean from last_ten",
        'select r.seller, "window", "start", "end", if(w.mean is null, null, r.mean) '
        'from results r left join wanted w on r.seller = w.seller and "window" = number '
        "where auctions = 10",
    ),
    "q9": Query(
        "the highest bid of each auction; of equal ones, the first by event time",
        (AUCTIONS, BIDS),
        _q9,
        f"with {TIMELY} select a.id, item, seller, category, bidder, price, channel, url, b.ts, "
        f"extra from {_PAIRS} "
        "qualify row_number() over (partition by a.id order by price desc, b.ts, b.n) = 1",
        "select auction, item, seller, category, bidder, price, channel, url, at_right, extra "
        "from results",
    ),
}
