"""The queries of Nexmark that only filter and reshape bids, over a few bids written by hand.

q0 passes bids on, q1 converts prices, q2 chooses auctions, q14 computes and classifies, q21 and q22
take texts from urls.
"""

from datetime import UTC, datetime

import pytest

from bench.nexmark.generator import BIDS
from bench.nexmark.queries import QUERIES
from bench.nexmark.query import RESULTS, pipeline
from tidemark.testing import InProcess

FIELDS = ("auction", "bidder", "price", "channel", "url", "at", "extra")
HOME = "https://www.nexmark.com/a/b/c/item.htm?query=1"


def at(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def bid(auction, price, channel="Google", url=HOME, time="2026-03-02T12:00", extra="abc", bidder=7):
    row = (auction, bidder, price, channel, url, at(time), extra)
    return dict(zip(FIELDS, row, strict=True))


HAND_MADE = [
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
    return [{name: row[name] for name in fields} for row in HAND_MADE]


def numbered(numbers, **columns):
    """Return the expected rows of the bids with these numbers; ``columns``: a value for each."""
    return [
        {"_offset": number, **{name: values[place] for name, values in columns.items()}}
        for place, number in enumerate(numbers)
    ]


KINDS = ("dayTime", "otherTime", "dayTime", "nightTime", "dayTime", "otherTime")
EXPECTED = {
    "q0": [{"_offset": number, **row} for number, row in enumerate(HAND_MADE)],
    "q1": [
        {"_offset": n, **row, "price": row["price"] * 0.908}
        for n, row in enumerate(of("auction", "bidder", "price", "at"))
    ],
    "q2": numbered((0, 2, 7, 9), auction=(123, 246, 0, 1_230)),
    "q14": numbered((0, 3, 4, 6, 7, 9), kind=KINDS, letters=(1, 3, 1, 0, 1, 0)),
    "q21": numbered((0, 1, 3, 4, 5, 6, 7, 9), channel_id=("1", "99", "0", "3", "2", "", "1", "0")),
    "q22": numbered(
        range(10),
        dir1=["a", "a", ""] + ["a"] * 7,
        dir2=["b", "b", None] + ["b"] * 7,
        dir3=["c", "c", None] + ["c"] * 7,
    ),
}


@pytest.mark.parametrize("query", EXPECTED)
def test_a_query_on_bids_gives_each_row_that_it_must(query):
    run = InProcess(pipeline("nexmark", QUERIES[query], {BIDS: "bids"}, partitions=2))
    run.send("bids", *HAND_MADE)
    found = run.published(RESULTS)
    assert [row["_offset"] for row in found] == [row["_offset"] for row in EXPECTED[query]]
    run.expect_published(RESULTS, *EXPECTED[query])
