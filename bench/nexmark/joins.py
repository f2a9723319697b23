"""Queries that join persons, auctions and bids.

Nexmark's q3, q20 and q23 join rows whatever their times are, so their state only grows.  Here
``keep`` bounds it, and SQL has the same bound.  With 500 events per second (``--rate``), the bounds
of q3 and q20 are longer than any two rows that belong together are apart.
"""

from collections.abc import Mapping

from bench.nexmark.generator import AUCTIONS, BIDS, PERSONS
from bench.nexmark.query import RESULTS, Query, Streams
from tidemark import col, tumbling

_CATEGORY = 10
_STATES = ("OR", "ID", "CA")

TIMELY = (
    "p as (select * from persons where ts >= w), a as (select * from auctions where ts >= w), "
    "b as (select * from bids where ts >= w)"
)
"""The rows that are not late, because each side of a join judges rows by their own watermark."""


def _q3(streams: Streams) -> None:
    auctions = streams[AUCTIONS].filter(col("category") == _CATEGORY).key_by("seller")
    persons = streams[PERSONS].filter(col("state").is_in(_STATES)).key_by(seller="id")
    auctions.join(persons, keep="2m").select("name", "city", "state", "id").to(RESULTS)


def _q8(streams: Streams) -> None:
    persons = streams[PERSONS].key_by(person="id")
    auctions = streams[AUCTIONS].key_by(person="seller")
    persons.join(auctions, window=tumbling("10s"), how="semi").to(RESULTS)


def _q20(streams: Streams) -> None:
    auctions = streams[AUCTIONS].filter(col("category") == _CATEGORY).key_by(auction="id")
    streams[BIDS].key_by("auction").join(auctions, keep="10s").to(RESULTS)


def _q23(streams: Streams) -> None:
    persons = streams[PERSONS].key_by(person="id")
    bids = streams[BIDS].key_by(person="bidder").join(persons, keep="20s", suffix="_person")
    auctions = streams[AUCTIONS].key_by(person="seller")
    bids.key_by("person").join(auctions, keep="20s", suffix="_auction").to(RESULTS)


JOINS: Mapping[str, Query] = {
    "q3": Query(
        "auctions of a category with their sellers in some states",
        (PERSONS, AUCTIONS),
        _q3,
        f"with {TIMELY} select name, city, state, a.id from a join p on seller = p.id "
        f"where category = {_CATEGORY} and state in {_STATES} and abs(a.ts - p.ts) <= 120000",
        "select name, city, state, id from results",
    ),
    "q8": Query(
        "persons who open an auction in the window in which they come",
        (PERSONS, AUCTIONS),
        _q8,
        "select distinct p.id, name, p.ts // 10000 * 10000 from persons p join auctions a "
        "on p.id = seller and p.ts // 10000 = a.ts // 10000 "
        "where (p.ts // 10000 + 1) * 10000 > p.w and (a.ts // 10000 + 1) * 10000 > a.w",
        "select person, name, _window_start_ms from results",
    ),
    "q20": Query(
        "bids with the auctions of a category",
        (AUCTIONS, BIDS),
        _q20,
        f"with {TIMELY} select auction, bidder, price, channel, url, extra, b.ts, seller, "
        "category, initial, reserve, item, description, a.ts, expires "
        "from b join a on auction = a.id "
        f"where category = {_CATEGORY} and abs(b.ts - a.ts) <= 10000",
        'select auction, bidder, price, channel, url, extra, "at", seller, category, initial, '
        "reserve, item, description, at_right, expires from results",
    ),
    "q23": Query(
        "bids with the person who bids and with the auctions of this person",
        (PERSONS, AUCTIONS, BIDS),
        _q23,
        f"with {TIMELY} select bidder, auction, price, b.ts, name, p.ts, a.id, item, a.ts "
        "from b join p on bidder = p.id join a on seller = bidder "
        "where abs(b.ts - p.ts) <= 20000 and abs(greatest(b.ts, p.ts) - a.ts) <= 20000",
        'select bidder, auction, price, "at", name, at_person, id_auction, item, at_auction '
        "from results",
    ),
}
