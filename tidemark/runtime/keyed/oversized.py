"""Dead letters for panes that fit no message, so that they do not stop a partition.

See docs/semantics.md, "Panes".  A pane that collects values, or whose values a user's function
makes, may be of any size.  The dead letter has the key and the size of the pane.  State, other
panes and later panes of the window are not affected.
"""

import numpy as np
import numpy.typing as npt

from tidemark.core.operators.ports import LATE, PANES, ROWS
from tidemark.plan.physical import PortPlan
from tidemark.plan.topics import MAX_MESSAGE_BYTES
from tidemark.serde.binary_column import BinaryColumn
from tidemark.serde.records import DeadLetter

MOST_BYTES = MAX_MESSAGE_BYTES - 64 * 2**10
"""The largest size of a pane's key and value; the rest of a message is Kafka's framing."""

STAGE = "publish"

_NO_OFFSET = -1
_NOUNS = {PANES: "pane", ROWS: "row", LATE: "late row"}


def without_oversized(
    port: PortPlan, partition: int, keys: BinaryColumn[bytes], values: BinaryColumn[bytes]
) -> tuple[BinaryColumn[bytes], BinaryColumn[bytes], list[DeadLetter]]:
    """Return the keys and values that fit a message, and dead letters for the others."""
    fit = fitting(keys, values)
    if fit.all():
        return keys, values, []
    letters = []
    for key, value in zip(keys.filter(~fit), values.filter(~fit), strict=True):
        size = len(key or b"") + len(value or b"")
        reason = f"{_NOUNS[port.port.kind]} of {size:,} bytes: at most {MOST_BYTES:,} fit a message"
        letters.append(DeadLetter(reason, STAGE, port.topic, partition, _NO_OFFSET, -1, key, value))
    return keys.filter(fit), values.filter(fit), letters


def fitting(keys: BinaryColumn[bytes], values: BinaryColumn[bytes]) -> npt.NDArray[np.bool_]:
    """Return which panes fit a message."""
    fit: npt.NDArray[np.bool_] = keys.lengths_bytes + values.lengths_bytes <= MOST_BYTES
    return fit
