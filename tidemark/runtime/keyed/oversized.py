"""Dead letters for panes that fit no message, so that they do not stop a partition.

See docs/semantics.md, "Panes".  A pane that collects values, or whose values a user's function
makes, may be of any size.  The dead letter has the key and the size of the pane.  State, other
panes and later panes of the window are not affected.
"""

from collections.abc import Sequence

from tidemark.core.operators.ports import LATE, PANES, ROWS
from tidemark.plan.physical import PortPlan
from tidemark.runtime.client.clients import MAX_MESSAGE_BYTES
from tidemark.serde.records import DeadLetter

MOST_BYTES = MAX_MESSAGE_BYTES - 64 * 2**10
"""The largest size of a pane's key and value; the rest of a message is Kafka's framing."""

STAGE = "publish"

_NO_OFFSET = -1
_NOUNS = {PANES: "pane", ROWS: "row", LATE: "late row"}

Keys = Sequence[bytes | None]
Values = Sequence[bytes | None]


def without_oversized(
    port: PortPlan, partition: int, keys: Keys, values: Values
) -> tuple[Keys, Values, list[DeadLetter]]:
    """Return the keys and values that fit a message, and dead letters for the others."""
    fit = fitting(keys, values)
    if all(fit):
        return keys, values, []
    kept, letters = [], []
    for fits, key, value in zip(fit, keys, values, strict=True):
        if fits:
            kept.append((key, value))
            continue
        size = _size_bytes(key, value)
        reason = f"{_NOUNS[port.port.kind]} of {size:,} bytes: at most {MOST_BYTES:,} fit a message"
        letters.append(DeadLetter(reason, STAGE, port.topic, partition, _NO_OFFSET, -1, key, value))
    return [key for key, _ in kept], [value for _, value in kept], letters


def fitting(keys: Keys, values: Values) -> list[bool]:
    """Return which panes fit a message; the longest key and value usually prove that all fit."""
    if _longest(keys) + _longest(values) <= MOST_BYTES:
        return [True] * len(keys)
    sizes_bytes = map(_size_bytes, keys, values)
    return [size_bytes <= MOST_BYTES for size_bytes in sizes_bytes]


def _size_bytes(key: bytes | None, value: bytes | None) -> int:
    return len(key or b"") + len(value or b"")


def _longest(texts: Keys | Values) -> int:
    return max(map(len, filter(None, texts)), default=0)
