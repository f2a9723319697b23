"""Queries on windows of event time and of processing time."""

from collections.abc import Mapping

from bench.nexmark.generator import BIDS
from bench.nexmark.query import RESULTS, Query, Streams
from tidemark import count, processing_time, session, tumbling


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
