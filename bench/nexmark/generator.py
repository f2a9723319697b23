"""The events of the auction site: persons, auctions and bids, as columns.

The formulas are those of the generators of Apache Beam and of nexmark/nexmark, with three
differences.  Numbers are drawn per event (draws.py), so a run can be repeated.  Bidders are persons
of their time (nexmark/nexmark issue 30).  Events may be late, and partitions may be silent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from bench.nexmark.draws import Draw, Numbers, below, draw, unit
from bench.nexmark.texts import FIRST_ID, Texts

PERSONS, AUCTIONS, BIDS = "persons", "auctions", "bids"
KINDS = (PERSONS, AUCTIONS, BIDS)

_EACH_PERSONS, _EACH_AUCTIONS = 1, 3
_EACH = 50
"""Of 50 events one is a person, three are auctions and 46 are bids."""

_ACTIVE_PERSONS = 1_000
_IN_FLIGHT = 100  # auctions
_LEAD = 10
"""Numbers of persons and auctions that do not exist yet, so a bid may come before its person."""
_HOT_EACH = 100
_HOT_AUCTION_OF, _HOT_SELLER_OF, _HOT_BIDDER_OF = 2, 4, 4
"""Of this many draws one takes any auction, seller or bidder, the others the hot one."""
_CATEGORIES, _FIRST_CATEGORY = 5, 10

_TEXTS = dict.fromkeys(
    ["name", "email", "card", "city", "state", "item", "description", "channel", "url", "extra"],
    pl.String(),
)


@dataclass(frozen=True)
class Settings:
    """What the events depend on.

    Args:
        seed: of all random numbers.
        rate: events per second of event time.
        group: event numbers are out of order within groups of this size.
        late_share: the share of events that arrive late.
        late_by_ms: late events are late by less than this.
        partitions: of each topic.
        silent: number of partitions of each topic that stay empty.
        base_ms: event time of the first event.
    """

    seed: int = 1
    rate: int = 500
    group: int = 50
    late_share: float = 0.01
    late_by_ms: int = 30_000
    partitions: int = 1
    silent: int = 0
    base_ms: int = 1_700_000_000_000


def events(first: int, count: int, settings: Settings) -> Mapping[str, pl.DataFrame]:
    """Return the events ``first`` to ``first + count - 1`` by kind.

    Each kind has its own columns and ``n``, the number of the event.
    """
    numbers = np.arange(first, first + count, dtype=np.int64)
    group = settings.group
    # 953 is prime, so the events of a group keep their numbers, in another order.
    adjusted = numbers // group * group + numbers * 953 % group
    place = adjusted % _EACH
    is_person = place < _EACH_PERSONS
    is_bid = place >= _EACH_PERSONS + _EACH_AUCTIONS
    made = {PERSONS: (_persons, is_person), BIDS: (_bids, is_bid)}
    made[AUCTIONS] = (_auctions, ~is_person & ~is_bid)
    return {
        kind: make(adjusted[mask], settings).with_columns(n=pl.Series(numbers[mask]))
        for kind, (make, mask) in made.items()
    }


def event_times(adjusted: Numbers, settings: Settings) -> Numbers:
    """Return the event times, ms."""
    return settings.base_ms + adjusted * 1_000_000 // settings.rate // 1_000


def _persons(of: Numbers, settings: Settings) -> pl.DataFrame:
    texts = Texts(settings.seed, of)
    return pl.DataFrame(
        {
            "id": _last_person(of) + FIRST_ID,
            "name": texts.names(),
            "email": texts.emails(),
            "card": texts.cards(),
            "city": texts.cities(),
            "state": texts.states(),
            "at": event_times(of, settings),
        },
        schema_overrides=_TEXTS,
    )


def _auctions(of: Numbers, settings: Settings) -> pl.DataFrame:
    seed, texts = settings.seed, Texts(settings.seed, of)
    at_ms = event_times(of, settings)
    is_hot = below(draw(seed, of, Draw.IS_HOT_SELLER), _HOT_SELLER_OF) > 0
    seller = np.where(is_hot, _hot(_last_person(of)), _any_person(seed, of, Draw.SELLER))
    initial = _price(seed, of, Draw.INITIAL_BID)
    horizon_ms = event_times(of + _IN_FLIGHT * _EACH // _EACH_AUCTIONS, settings) - at_ms
    lifetime_ms = 1 + below(draw(seed, of, Draw.LIFETIME), np.maximum(2 * horizon_ms, 1))
    return pl.DataFrame(
        {
            "id": _last_auction(of) + FIRST_ID,
            "seller": seller + FIRST_ID,
            "category": _FIRST_CATEGORY + below(draw(seed, of, Draw.CATEGORY), _CATEGORIES),
            "initial": initial,
            "reserve": initial + _price(seed, of, Draw.RESERVE),
            "item": texts.items(),
            "description": texts.descriptions(),
            "at": at_ms,
            "expires": at_ms + lifetime_ms,
        },
        schema_overrides=_TEXTS,
    )


def _bids(of: Numbers, settings: Settings) -> pl.DataFrame:
    seed, texts = settings.seed, Texts(settings.seed, of)
    is_hot = below(draw(seed, of, Draw.IS_HOT_AUCTION), _HOT_AUCTION_OF) > 0
    auction = np.where(is_hot, _hot(_last_auction(of)), _any_auction(seed, of))
    is_hot = below(draw(seed, of, Draw.IS_HOT_BIDDER), _HOT_BIDDER_OF) > 0
    bidder = np.where(is_hot, _hot(_last_person(of)) + 1, _any_person(seed, of, Draw.BIDDER))
    channels, urls = texts.channels()
    return pl.DataFrame(
        {
            "auction": auction + FIRST_ID,
            "bidder": bidder + FIRST_ID,
            "price": _price(seed, of, Draw.PRICE),
            "channel": channels,
            "url": urls,
            "at": event_times(of, settings),
            "extra": texts.extras(),
        },
        schema_overrides=_TEXTS,
    )


def _last_person(of: Numbers) -> Numbers:
    """Return the number of the newest person at each event."""
    return of // _EACH * _EACH_PERSONS + np.minimum(of % _EACH, _EACH_PERSONS - 1)


def _last_auction(of: Numbers) -> Numbers:
    """Return the number of the newest auction at each event; -1 before the first."""
    place = of % _EACH - _EACH_PERSONS
    return of // _EACH * _EACH_AUCTIONS + np.clip(place, -1, _EACH_AUCTIONS - 1)


def _hot(number: Numbers) -> Numbers:
    return np.array(np.maximum(number, 0) // _HOT_EACH * _HOT_EACH, np.int64)


def _any_person(seed: int, of: Numbers, what: Draw) -> Numbers:
    persons = _last_person(of) + 1
    active = np.minimum(persons, _ACTIVE_PERSONS)
    return persons - active + below(draw(seed, of, what), active + _LEAD)


def _any_auction(seed: int, of: Numbers) -> Numbers:
    last: Numbers = np.maximum(_last_auction(of), 0)
    lowest: Numbers = np.maximum(last - _IN_FLIGHT, 0)
    return lowest + below(draw(seed, of, Draw.AUCTION), last - lowest + 1 + _LEAD)


def _price(seed: int, of: Numbers, what: Draw) -> Numbers:
    """Return prices in cents, uniform in their logarithm from 1 to 1,000,000 units."""
    cents: Numbers = np.rint(10.0 ** (unit(draw(seed, of, what)) * 6) * 100).astype(np.int64)
    return cents
