"""Says in one line whether the native library is there."""

import sys

from tidemark.native import library, missing

sys.stdout.write(
    "native library: built\n" if library is not None else f"native library: none, {missing}\n"
)
