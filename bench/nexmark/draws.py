"""Random numbers that are a function of the seed and the number of the event.

Each event has 64 random bits for each of its ``Draw``s, by the finaliser of SplitMix64 (Steele, Lea
and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).  So any slice of the
events can be made alone, in any number of processes.
"""

from enum import IntEnum, unique

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ODD = np.uint64(0xD1B54A32D192ED03)
_MANTISSA_BITS = 53


@unique
class Draw(IntEnum):
    """What a random number of an event decides."""

    FIRST_NAME = 1
    LAST_NAME = 2
    CITY = 3
    STATE = 4
    EMAIL = 5
    CARD = 6
    IS_HOT_SELLER = 7
    SELLER = 8
    CATEGORY = 9
    INITIAL_BID = 10
    RESERVE = 11
    LIFETIME = 12
    ITEM = 13
    DESCRIPTION = 14
    IS_HOT_AUCTION = 15
    AUCTION = 16
    IS_HOT_BIDDER = 17
    BIDDER = 18
    PRICE = 19
    IS_HOT_CHANNEL = 20
    HOT_CHANNEL = 21
    CHANNEL = 22
    EXTRA_LENGTH = 23
    EXTRA = 24
    IS_LATE = 25
    LATE_BY = 26


def draw(seed: int, events: Numbers, what: Draw) -> Bits:
    """Return 64 random bits for each event number."""
    with np.errstate(over="ignore"):
        of_event = mixed(events.astype(np.uint64) * _GOLDEN + np.uint64(seed))
        return mixed(of_event + np.uint64(what) * _ODD)


def mixed(bits: Bits) -> Bits:
    """Return bits that depend on all bits of the argument."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def unit(bits: Bits) -> npt.NDArray[np.float64]:
    """Return uniform numbers from [0, 1)."""
    return (bits >> np.uint64(64 - _MANTISSA_BITS)).astype(np.float64) / 2.0**_MANTISSA_BITS


def below(bits: Bits, bound: Numbers | int) -> Numbers:
    """Return uniform integers from [0, bound)."""
    return (unit(bits) * bound).astype(np.int64)
