"""The texts of events: names, places, channels, addresses of pages and filling."""

import string
from functools import cache

import numpy as np
import numpy.typing as npt

from bench.nexmark.draws import Draw, Numbers, below, draw, mixed

FIRST_ID = 1_000
"""The id of the first person and of the first auction."""

_FIRST_NAMES = [
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Deiter",
    "Walter",
]
_LAST_NAMES = [
    "Shultz",
    "Abrams",
    "Spencer",
    "White",
    "Bartels",
    "Walton",
    "Smith",
    "Jones",
    "Noris",
]
_CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_CHANNELS = 10_000
_ID_BITS = 32
_LETTERS = np.array([*string.ascii_lowercase])
_FILLING_SIZE = 1 << 16
_EXTRA_SIZES = (54, 82)

Strings = npt.NDArray[np.str_]


class Texts:
    """The texts of the events with some adjusted numbers."""

    def __init__(self, seed: int, of: Numbers) -> None:
        """Draw from ``seed`` for the events ``of``."""
        self._seed, self._of = seed, of

    def names(self) -> Strings:
        """Return first and last names."""
        first = self._pick(_FIRST_NAMES, Draw.FIRST_NAME)
        return np.char.add(np.char.add(first, " "), self._pick(_LAST_NAMES, Draw.LAST_NAME))

    def cities(self) -> Strings:
        """Return cities."""
        return self._pick(_CITIES, Draw.CITY)

    def states(self) -> Strings:
        """Return states, which do not depend on the cities."""
        return self._pick(_STATES, Draw.STATE)

    def emails(self) -> list[str]:
        """Return email addresses."""
        both = zip(self._filling(Draw.EMAIL, 7), self._filling(Draw.CARD, 5), strict=True)
        return [f"{name}@{host}.com" for name, host in both]

    def cards(self) -> list[str]:
        """Return numbers of credit cards."""
        numbers = below(draw(self._seed, self._of, Draw.CARD), 10**16).tolist()
        digits = (f"{number:016}" for number in numbers)
        return [" ".join(each[at : at + 4] for at in range(0, 16, 4)) for each in digits]

    def items(self) -> list[str]:
        """Return names of items."""
        return self._filling(Draw.ITEM, 20)

    def descriptions(self) -> list[str]:
        """Return descriptions of items."""
        return self._filling(Draw.DESCRIPTION, 100)

    def channels(self) -> tuple[Strings, Strings]:
        """Return channels and the addresses of their pages."""
        is_hot = below(draw(self._seed, self._of, Draw.IS_HOT_CHANNEL), 2) > 0
        hot = below(draw(self._seed, self._of, Draw.HOT_CHANNEL), len(_HOT_CHANNELS))
        other = below(draw(self._seed, self._of, Draw.CHANNEL), _CHANNELS)
        names, pages = _pages(self._seed)
        index = np.where(is_hot, _CHANNELS + hot, other)
        return names[index], pages[index]

    def extras(self) -> list[str]:
        """Return the filling of bids."""
        low, high = _EXTRA_SIZES
        sizes = low + below(draw(self._seed, self._of, Draw.EXTRA_LENGTH), high - low)
        starts = below(draw(self._seed, self._of, Draw.EXTRA), _FILLING_SIZE - high)
        both = zip(starts.tolist(), sizes.tolist(), strict=True)
        return [_FILLING[start : start + size] for start, size in both]

    def _pick(self, values: list[str], what: Draw) -> Strings:
        return np.array(values)[below(draw(self._seed, self._of, what), len(values))]

    def _filling(self, what: Draw, size: int) -> list[str]:
        starts = below(draw(self._seed, self._of, what), _FILLING_SIZE - size).tolist()
        return [_FILLING[start : start + size] for start in starts]


@cache
def _pages(seed: int) -> tuple[Strings, Strings]:
    """Return the names and pages of all channels, the hot ones last."""
    numbers = np.arange(_CHANNELS + len(_HOT_CHANNELS), dtype=np.uint64)
    bits = mixed(numbers + np.uint64(seed))
    folders = [_LETTERS[(bits >> np.uint64(at)) % np.uint64(26)] for at in range(0, 60, 5)]
    parts = ["".join(letters) for letters in zip(*folders, strict=True)]
    pages = [
        f"https://www.nexmark.com/{part[:4]}/{part[4:8]}/{part[8:]}/item.htm?query=1"
        for part in parts
    ]
    named = below(mixed(bits), 10) > 0
    for channel in np.flatnonzero(named[:_CHANNELS]).tolist():
        pages[channel] += f"&channel_id={_reversed_bits(channel)}"
    names = [*(f"channel-{channel}" for channel in range(_CHANNELS)), *_HOT_CHANNELS]
    return np.array(names), np.array(pages)


def _reversed_bits(number: int) -> int:
    """Return the absolute value of a 32-bit integer with the bits of ``number`` reversed."""
    reverse = int(f"{number:0{_ID_BITS}b}"[::-1], 2)
    return min(reverse, (1 << _ID_BITS) - reverse)


_FILLING = "".join(_LETTERS[below(mixed(np.arange(_FILLING_SIZE, dtype=np.uint64)), len(_LETTERS))])
