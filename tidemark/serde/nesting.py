"""The depth of JSON text: bounded, so that the verdict on a record depends on the record alone."""

import re

import numpy as np

MAX_NESTING = 128
"""Maximum nesting of a record; fixed, and far below the limit of the interpreter's stack."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_STEPS = np.zeros(256, np.int8)  # into and out of a level, by byte
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


def nested_too_deep(text: bytes) -> bool:
    """Return whether brackets nest deeper than MAX_NESTING; cheap if there are few brackets."""
    if text.count(b"[") + text.count(b"{") <= MAX_NESTING:
        return False
    steps = _STEPS[np.frombuffer(_STRING.sub(b"", text), np.uint8)]
    return bool(steps.cumsum(dtype=np.int32).max(initial=0) > MAX_NESTING)
