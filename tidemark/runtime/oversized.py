"""Panes larger than a message may be: dead letters, so that none of them stops a partition.

See docs/semantics.md, "Panes".  A pane that collects values, or lets a user's function make them,
may be of any size.  It is told with its key and how large it was; its state, its neighbours and
later panes are untouched.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidemark.records import DeadLetter
from tidemark.runtime.clients import MAX_MESSAGE_BYTES

MOST_BYTES = MAX_MESSAGE_BYTES - 64 * 2**10
"""Of a pane's key and value; the rest is for what Kafka puts around them."""

STAGE = "publish"

_NO_OFFSET = -1

Keys = Sequence[bytes | None]
Values = Sequence[bytes | None]


def parted(
    topic: str, partition: int, keys: Keys, values: Values
) -> tuple[Keys, Values, list[DeadLetter]]:
    """Return what fits the topic, and letters instead of what does not."""
    sizes = sizes_bytes(keys, values)
    if sizes.max(initial=0) <= MOST_BYTES:
        return keys, values, []
    kept, letters = [], []
    for size, key, value in zip(sizes.tolist(), keys, values, strict=True):
        if size <= MOST_BYTES:
            kept.append((key, value))
            continue
        reason = f"pane of {size:,} bytes: at most {MOST_BYTES:,} fit a message"
        letters.append(DeadLetter(reason, STAGE, topic, partition, _NO_OFFSET, -1, key, value))
    return [key for key, _ in kept], [value for _, value in kept], letters


def sizes_bytes(keys: Keys, values: Values) -> npt.NDArray[np.int64]:
    """Return the bytes of each pane's key and value."""
    return _lengths(keys) + _lengths(values)


def _lengths(texts: Keys | Values) -> npt.NDArray[np.int64]:
    return np.fromiter((0 if text is None else len(text) for text in texts), np.int64, len(texts))
