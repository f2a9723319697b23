"""The depth of JSON text: bounded, so that the verdict on a record depends on the record alone."""

import re
from collections.abc import Sequence

import numpy as np

MAX_NESTING = 128
"""Maximum nesting of a record; fixed, and far below the limit of the interpreter's stack."""

_OPENS = ord("{")  # as "[" with the bit of lower case
_LOWER_CASE = np.uint8(ord("{") ^ ord("["))
_SHORT_BYTES = 2**14
_AT_ONCE = 1_000  # texts that are looked at as one array, at most 16 MiB

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_STEPS = np.zeros(256, np.int8)  # into and out of a level, by byte
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


def any_nested_too_deep(texts: Sequence[bytes], longest_bytes: int) -> bool:
    """Return whether brackets nest deeper than MAX_NESTING in any text; cheap for short texts.

    ``longest_bytes``: the size of the longest text.  Such a text has more than MAX_NESTING opening
    brackets within that size.
    """
    parts = range(0, len(texts), _AT_ONCE)
    if longest_bytes <= _SHORT_BYTES and not any(
        _has_many_brackets(b"".join(texts[at : at + _AT_ONCE]), longest_bytes) for at in parts
    ):
        return False
    return any(map(nested_too_deep, texts))


def _has_many_brackets(text: bytes, within_bytes: int) -> bool:
    """Return whether more than MAX_NESTING brackets open within a number of bytes."""
    opens = np.flatnonzero((np.frombuffer(text, np.uint8) | _LOWER_CASE) == _OPENS)
    return bool((opens[MAX_NESTING:] - opens[:-MAX_NESTING] < within_bytes).any())


def nested_too_deep(text: bytes) -> bool:
    """Return whether brackets nest deeper than MAX_NESTING; cheap if there are few brackets."""
    if text.count(b"[") + text.count(b"{") <= MAX_NESTING:
        return False
    steps = _STEPS[np.frombuffer(_STRING.sub(b"", text), np.uint8)]
    return bool(steps.cumsum(dtype=np.int32).max(initial=0) > MAX_NESTING)
