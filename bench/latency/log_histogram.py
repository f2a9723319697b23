"""A histogram with buckets of equal relative width, as in HdrHistogram: errors below 0.1 %.

Why not that library: docs/decisions/0014-what-stays-by-hand.md.
"""

import numpy as np
import numpy.typing as npt

_BITS = 10
"""Bits kept behind the highest bit of a value: the error is at most 2**-10."""

_BUCKETS = (64 - _BITS) << _BITS

Values = npt.NDArray[np.int64]


class LogHistogram:
    """Counts of values that are not negative, in any unit."""

    def __init__(self) -> None:
        """Start empty."""
        self._counts = np.zeros(_BUCKETS, np.int64)
        self.count = 0
        self.highest = 0

    def add(self, values: Values) -> None:
        """Count values."""
        if not values.size:
            return
        np.add.at(self._counts, _bucket(values), 1)
        self.count += values.size
        self.highest = max(self.highest, int(values.max()))

    def quantile(self, share: float) -> int:
        """Return the value that ``share`` of all values do not exceed; 0 without values."""
        if not self.count:
            return 0
        rank = max(1, int(np.ceil(share * self.count)))
        bucket = int(np.searchsorted(self._counts.cumsum(), rank))
        return min(_last_of(bucket), self.highest)


def _bucket(values: Values) -> Values:
    """Return the bucket of each value: its exponent and the bits behind its highest bit."""
    _, lengths = np.frexp(values.astype(np.float64))
    shift = np.maximum(lengths.astype(np.int64) - 1 - _BITS, 0)
    return (shift << _BITS) + (values >> shift)


def _last_of(bucket: int) -> int:
    """Return the highest value of a bucket."""
    shift = max((bucket >> _BITS) - 1, 0)
    return ((bucket - (shift << _BITS) + 1) << shift) - 1
