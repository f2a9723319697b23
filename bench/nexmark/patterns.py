"""The queries of nexmark/nexmark that match patterns: ``queries-cep``, q0 to q3, here cep0 to cep3.

They match bids of one bidder on one auction.  Of the originals, only cep3 has a limit in time.
Here the pipelines, the SQL and Flink have the same limits.

``MATCH_RECOGNIZE`` has rules that differ (docs/decisions/0054):

* There, of matches that share rows, the one that begins first counts.  Here, it is the one that
  ends first.  So cep1 and cep3 have other matches there (``apart``).  In cep0, all matches that
  share rows end with the same row, and the one that begins first counts in both.
* There, SKIP TO NEXT ROW gives a match for each row that begins one.  In cep2 this is
  ``skip="none"``, because a row begins one match at most.
* Here, conditions have no aggregates of the rows of a match.  A mean is made of running sums: each
  bid has those of the bids of its key so far.
"""

from collections.abc import Mapping

from bench.nexmark.generator import BIDS
from bench.nexmark.query import RESULTS, Query
from tidemark import col, cum_sum, lit, prev, sequence, step, to_last
from tidemark.language.patterns.matches import SkipName
from tidemark.language.patterns.sequence import Sequence
from tidemark.language.stream import Stream

WITHIN_S, DROP_WITHIN_S = 10, 5
CHEAP, DROP = 10_000, 50
_KEY = ("auction", "bidder")
_ANY = lit(value=True)


def _falls(bids: Stream) -> Stream:
    """Return bids that fall at least twice, and then rise above the last but one."""
    falls = col("price") < col("before")
    pattern = sequence(
        start=step(_ANY),
        down=step(falls, contiguity="next").one_or_more(contiguity="next"),
        low=step(falls, contiguity="next"),
        up=step(_ANY, on=col("price") > col("low.before"), contiguity="next"),
    ).within(f"{WITHIN_S}s")
    bids = bids.key_by(*_KEY).scan(before=prev("price"))
    matches = bids.key_by(*_KEY).match(pattern, skip=to_last("up"))
    return matches.select(start_at="start.at", low_at="low.at", up_at="up.at")


def _cheap() -> Sequence:
    """Return the pattern of a run of bids with a low mean, and the bid that ends it."""
    total = col("total") - col("first.total") + col("first.price")
    is_cheap = total < CHEAP * (col("n") - col("first.n") + 1)
    return sequence(
        first=step(col("price") < CHEAP),
        more=step(_ANY, on=is_cheap, contiguity="next")
        .one_or_more(contiguity="next")
        .optional()
        .greedy(),
        end=step(_ANY, contiguity="next"),
    ).within(f"{WITHIN_S}s")


def _cheap_runs(bids: Stream, skip: SkipName) -> Stream:
    """Return the runs of bids with a low mean, each with this mean in whole cents."""
    counted = bids.with_columns(one=lit(1)).key_by(*_KEY)
    sums = counted.scan(total=cum_sum("price"), n=cum_sum("one"))
    matches = sums.key_by(*_KEY).match(_cheap(), skip=skip)
    names = ("at", "price", "total", "n")
    runs = matches.select(
        **{f"{each}_{name}": f"{each}.{name}" for each in ("first", "more") for name in names}
    )
    last = {name: col(f"more_{name}").fill_null(col(f"first_{name}")) for name in names}
    total = last["total"] - col("first_total") + col("first_price")
    return runs.select(
        *_KEY,
        "first_at",
        last_at=last["at"],
        mean=total // (last["n"] - col("first_n") + 1),
    )


def _drops(bids: Stream) -> Stream:
    """Return drops of the price within a few seconds."""
    stays = col("price") > col("before.price") - DROP
    pattern = sequence(
        before=step(_ANY),
        between=step(_ANY, on=stays, contiguity="next").one_or_more(contiguity="next").optional(),
        drop=step(_ANY, on=col("price") < col("before.price") - DROP, contiguity="next"),
    ).within(f"{DROP_WITHIN_S}s")
    matches = bids.key_by(*_KEY).match(pattern)
    drops = matches.select(drop_at="drop.at", high="before.price", low="drop.price")
    return drops.select(*_KEY, "drop_at", fall=col("high") - col("low"))


_BIDS = """b as (
  select auction, bidder, price, ts, row_number() over of_key as i,
    sum(price) over of_key as total, lag(price) over of_key as before,
    lag(price, 2) over of_key as before_last, lag(ts) over of_key as before_ts
  from bids where ts >= w
  window of_key as (partition by auction, bidder order by ts, pos)
)"""
"""The bids that are not late; ``i``: the place of each in the order of its key."""

_FALLS = f"""runs as (
  select *, sum(if(price < before, 0, 1)) over (partition by auction, bidder order by i) as run
  from b
)
select u.auction, u.bidder, arg_min(s.ts, s.i), any_value(u.before_ts), any_value(u.ts)
from runs u join runs s on u.auction = s.auction and u.bidder = s.bidder
  and s.run = u.run - 1 and s.i <= u.i - 3 and u.ts < s.ts + {WITHIN_S * 1_000}
where u.price >= u.before and u.price > u.before_last
group by u.auction, u.bidder, u.i"""
"""A run: a bid and those after it that fall.  ``u`` begins the next one; ``s`` may be a start."""

_CHEAP_RUNS = f"""found as (
  select a.auction, a.bidder, a.i as first, min(z.i) as last
  from b a join b z on a.auction = z.auction and a.bidder = z.bidder and z.i > a.i
    and z.total - a.total + a.price >= {CHEAP} * (z.i - a.i + 1)
    and z.ts < a.ts + {WITHIN_S * 1_000}
  where a.price < {CHEAP} group by all
)"""
_DROPS = f"""found as (
  select a.auction, a.bidder, a.i as first, z.i as last
  from b a join b z on a.auction = z.auction and a.bidder = z.bidder and z.i > a.i
    and z.price <= a.price - {DROP} and z.ts < a.ts + {DROP_WITHIN_S * 1_000}
  qualify row_number() over (partition by a.auction, a.bidder, a.i order by z.i) = 1
    and z.price < a.price - {DROP}
)"""

_SHOW_RUNS = """select m.auction, m.bidder, a.ts, z.ts,
  ((z.total - a.total + a.price) // (z.i - a.i + 1))::bigint
from {} m join b a on m.auction = a.auction and m.bidder = a.bidder and first = a.i
  join b z on m.auction = z.auction and m.bidder = z.bidder and last = z.i + 1"""
_SHOW_DROPS = """select m.auction, m.bidder, z.ts, a.price - z.price
from {} m join b a on m.auction = a.auction and m.bidder = a.bidder and first = a.i
  join b z on m.auction = z.auction and m.bidder = z.bidder and last = z.i"""


def _apart(found: str, show: str, counts: str) -> str:
    """Return SQL of the matches of ``found`` that share no row.

    ``counts``: the order in which the first of those after the last match counts.
    """
    only = f"qualify row_number() over (partition by auction, bidder order by {counts}) = 1"
    return f"""with recursive {_BIDS}, {found}, chosen(auction, bidder, begins, ends) as (
  select auction, bidder, first, last from found {only}
  union all
  select auction, bidder, first, last from chosen join found using (auction, bidder)
  where first > ends {only}
), apart as (select auction, bidder, begins as first, ends as last from chosen)
{show.format("apart")}"""


def apart(counts: str) -> Mapping[str, str]:
    """Return SQL of the queries whose matches share no row; ``counts``: see ``_apart``."""
    return {
        "cep1": _apart(_CHEAP_RUNS, _SHOW_RUNS, counts),
        "cep3": _apart(_DROPS, _SHOW_DROPS, counts),
    }


_APART = apart("last, first")

PATTERNS: Mapping[str, Query] = {
    "cep0": Query(
        "bids whose price falls and then rises",
        (BIDS,),
        lambda streams: _falls(streams[BIDS]).to(RESULTS),
        f"with {_BIDS}, {_FALLS}",
        "select auction, bidder, start_at, low_at, up_at from results",
    ),
    "cep1": Query(
        "runs of bids with a mean below 100 units; the next run begins after the last one",
        (BIDS,),
        lambda streams: _cheap_runs(streams[BIDS], "past_last").to(RESULTS),
        _APART["cep1"],
        "select auction, bidder, first_at, last_at, mean from results",
    ),
    "cep2": Query(
        "runs of bids with a mean below 100 units, from each bid",
        (BIDS,),
        lambda streams: _cheap_runs(streams[BIDS], "none").to(RESULTS),
        f"with {_BIDS}, {_CHEAP_RUNS} {_SHOW_RUNS.format('found')}",
        "select auction, bidder, first_at, last_at, mean from results",
    ),
    "cep3": Query(
        "bids whose price drops by 50 cents within 5 s",
        (BIDS,),
        lambda streams: _drops(streams[BIDS]).to(RESULTS),
        _APART["cep3"],
        "select auction, bidder, drop_at, fall from results",
    ),
}
