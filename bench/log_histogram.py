"""Counts in buckets of equal relative width, as HdrHistogram has them: no value is off by 0.1 %."""

import numpy as np
import numpy.typing as npt

_BITS = 10
"""Bits of a value that are kept behind its highest one: an error of 2**-10 at most."""

_BUCKETS = (64 - _BITS) << _BITS

Values = npt.NDArray[np.int64]


class LogHistogram:
    """How often each value came; of values that are not negative, in any unit."""

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
        """Return a value that ``share`` of all values are not above; 0 of none."""
        if not self.count:
            return 0
        rank = max(1, int(np.ceil(share * self.count)))
        bucket = int(np.searchsorted(self._counts.cumsum(), rank))
        return min(_last_of(bucket), self.highest)


def _bucket(values: Values) -> Values:
    """Return of each value its exponent and the bits behind its highest one, as one number."""
    _, lengths = np.frexp(values.astype(np.float64))
    shift = np.maximum(lengths.astype(np.int64) - 1 - _BITS, 0)
    return (shift << _BITS) + (values >> shift)


def _last_of(bucket: int) -> int:
    """Return the highest value that falls into a bucket."""
    shift = max((bucket >> _BITS) - 1, 0)
    return ((bucket - (shift << _BITS) + 1) << shift) - 1
