"""The queries of Nexmark that only filter and reshape bids, over a few bids written by hand.

q0 passes bids on, q1 converts prices, q2 chooses auctions, q14 computes and classifies, q21 and q22
take texts from urls.
"""

from datetime import UTC, datetime

import pytest

from tidemark import Pipeline, bounded, col, lit, when
from tidemark.testing import InProcess

BID = {
    "auction": int,
    "bidder": int,
    "price": int,
    "channel": str,
    "url": str,
    "at": int,
    "extra": str,
}
HOME = "https://www.nexmark.com/a/b/c/item.htm?query=1"


def q0(bids):
    return bids


def q1(bids):
    return bids.select("auction", "bidder", price=col("price") * 0.908, at=col("at"))


def q2(bids):
    return bids.filter(col("auction") % 123 == 0).select("auction", "price")


def q14(bids):
    hour = (col("at") // 3_600_000) % 24
    kind = (
        when((hour >= 8) & (hour <= 18))
        .then(lit("dayTime"))
        .when((hour <= 6) | (hour >= 20))
        .then(lit("nightTime"))
        .otherwise(lit("otherTime"))
    )
    price = col("price") * 0.908
    return bids.filter((price > 1_000_000) & (price < 50_000_000)).select(
        "auction",
        "bidder",
        price=price,
        kind=kind,
        at=col("at"),
        extra=col("extra"),
        cs=col("extra").str.count_matches("c"),
    )


def q21(bids):
    known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    name = col("channel").str.to_lowercase()
    of_url = col("url").str.extract(r"(?:&|^)channel_id=([^&]*)", 1)
    named = name.replace_strict(known, default=None, return_dtype=bids.columns["channel"])
    with_id = bids.with_columns(channel_id=named.fill_null(of_url))
    return with_id.filter(col("channel_id").is_not_null()).select(
        "auction", "bidder", "price", "channel", "channel_id"
    )


def q22(bids):
    parts = col("url").str.split("/")
    return bids.select(
        "auction",
        "bidder",
        "price",
        "channel",
        dir1=parts.list.get(3, null_on_oob=True),
        dir2=parts.list.get(4, null_on_oob=True),
        dir3=parts.list.get(5, null_on_oob=True),
    )


def at(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def bid(auction, price, channel="Google", url=HOME, time="2026-03-02T12:00", extra="abc", bidder=7):
    row = (auction, bidder, price, channel, url, at(time), extra)
    return dict(zip(BID, row, strict=True))


BIDS = [
    bid(123, 2_000_000),
    bid(124, 100, "channel-5", f"{HOME}&channel_id=99", "2026-03-02T03:00"),
    bid(246, 60_000_000, "channel-6", "https://x/", "2026-03-02T19:30"),
    bid(5, 1_200_000, "Apple", time="2026-03-02T19:00", extra="ccc"),
    bid(6, 1_101_322, "BAIDU"),  # just above a million after conversion
    bid(7, 1_101_321, "Facebook"),
    bid(8, 5_000_000, "channel-7", f"{HOME}&channel_id=&x=1", "2026-03-02T20:00", "xyz"),
    bid(0, 55_066_079, "google", extra="cab"),
    bid(9, 55_066_080, "channel-8", f"{HOME}&x=1", "2026-03-02T06:59"),
    bid(1_230, 3_000_000, "apple", HOME, "2026-03-02T07:00", ""),
]


def of(*fields):
    return [{name: row[name] for name in fields} for row in BIDS]


def numbered(numbers, **columns):
    """Return the expected rows of the bids with these numbers; ``columns``: a value for each."""
    return [
        {"_offset": number, **{name: values[place] for name, values in columns.items()}}
        for place, number in enumerate(numbers)
    ]


KINDS = ("dayTime", "otherTime", "dayTime", "nightTime", "dayTime", "otherTime")
EXPECTED = {
    q0: [{"_offset": number, **row} for number, row in enumerate(BIDS)],
    q1: [
        {"_offset": n, **row, "price": row["price"] * 0.908}
        for n, row in enumerate(of("auction", "bidder", "price", "at"))
    ],
    q2: numbered((0, 2, 7, 9), auction=(123, 246, 0, 1_230)),
    q14: numbered((0, 3, 4, 6, 7, 9), kind=KINDS, cs=(1, 3, 1, 0, 1, 0)),
    q21: numbered((0, 1, 3, 4, 5, 6, 7, 9), channel_id=("1", "99", "0", "3", "2", "", "1", "0")),
    q22: numbered(
        range(10),
        dir1=["a", "a", ""] + ["a"] * 7,
        dir2=["b", "b", None] + ["b"] * 7,
        dir3=["c", "c", None] + ["c"] * 7,
    ),
}


@pytest.mark.parametrize("query", EXPECTED, ids=lambda query: query.__name__)
def test_a_query_on_bids_gives_each_row_that_it_must(query):
    pipeline = Pipeline("nexmark", partitions=2)
    bids = pipeline.source("bids", schema=BID, event_time="at", watermark=bounded("4s"))
    query(bids).to("out")
    with InProcess(pipeline) as run:
        run.send("bids", *BIDS)
        found = run.published("out")
        assert [row["_offset"] for row in found] == [row["_offset"] for row in EXPECTED[query]]
        run.expect_published("out", *EXPECTED[query])
