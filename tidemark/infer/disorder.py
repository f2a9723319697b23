"""How far records are out of order, and the sizes that fit: of watermarks and windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidemark.infer.event_time import TimePlace

_DELAYS_MS = tuple(
    unit * number
    for unit, numbers in (
        (1_000, (1, 2, 5, 10, 30)),
        (60_000, (1, 2, 5, 10, 30)),
        (3_600_000, (1, 2, 6, 12)),
        (86_400_000, (1, 2, 7, 30, 100, 365, 1_000, 4_000, 10_000, 40_000)),
    )
    for number in numbers
)
_SIZES_MS = (1_000, 10_000, 60_000, 300_000, 900_000, 3_600_000, 86_400_000)
_WINDOWS = 50


@dataclass(frozen=True)
class Disorder:
    """How far records are behind the latest one before them in their partition.

    ``delay_ms``: a bound that holds for all but one of a thousand, rounded up.  ``beyond``: the
    number of records further behind.  ``is_descending``: whether the newest come first.
    """

    delay_ms: int
    most_ms: int
    beyond: int
    is_descending: bool


def disorder(place: TimePlace, partitions: Sequence[int]) -> Disorder:
    """Return the disorder of the records in each partition."""
    behind = [np.zeros(0, np.int64)]
    at = np.asarray(partitions)[place.known]
    ms = place.ms[place.known]
    falls = rises = 0
    for partition in np.unique(at):
        own = ms[at == partition]
        behind.append(np.maximum.accumulate(own) - own)
        steps = np.diff(own)
        falls, rises = falls + int((steps < 0).sum()), rises + int((steps > 0).sum())
    lags = np.concatenate(behind)
    bound = float(np.quantile(lags, 0.999, method="higher")) if len(lags) else 0.0
    delay_ms = _rounded_up(bound, _DELAYS_MS)
    return Disorder(
        delay_ms,
        int(lags.max(initial=0)),
        int((lags > delay_ms).sum()),
        is_descending=falls > 0 and rises < 0.05 * falls,
    )


def window_ms(place: TimePlace) -> int:
    """Return a size of windows that divides the times into about 50 windows or fewer."""
    ms = place.ms[place.known]
    return _rounded_up((int(ms.max()) - int(ms.min())) / _WINDOWS, _SIZES_MS)


def _rounded_up(ms: float, choices: Sequence[int]) -> int:
    return next((each for each in choices if each >= ms), choices[-1])
