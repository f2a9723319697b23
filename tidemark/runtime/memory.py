"""The memory budget of a service: TIDEMARK_MEMORY, and the shares of the parts of its work.

The shares leave room for the interpreter and its libraries (about 150 MiB), and for copies: what is
read exists as bytes, as columns and as bytes again.  See docs/operations.md, "Memory".
"""

import re

LEAST_BYTES = 384 * 2**20

_UNITS = {"": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"(\d+) ?(|KiB|MiB|GiB)", re.IGNORECASE)


def bytes_of(size: object) -> object:
    """Return a size such as "512MiB" in bytes, and anything that is not text as it is.

    Raises:
        ValueError: the text is not a number of bytes, KiB, MiB or GiB.
    """
    if not isinstance(size, str):
        return size
    found = _SIZE.fullmatch(size.strip())
    if found is None:
        raise ValueError('must be a number of bytes, or a size such as "512MiB"')
    return int(found[1]) * _UNITS[found[2].upper()]


def fetched_bytes(memory_bytes: int) -> int:
    """Return the bytes that a consumer may hold ready, over all its partitions."""
    return memory_bytes // 8


def fetch_bytes(memory_bytes: int) -> int:
    """Return the bytes of one fetch; decompressed, they may be thousands of times as many."""
    return min(2**20, memory_bytes // 2**13)


def taken_bytes(memory_bytes: int) -> int:
    """Return the bytes of the messages that a service takes at once."""
    return memory_bytes // 32


def parsed_bytes(memory_bytes: int) -> int:
    """Return the bytes of records that become rows at once: a record may be thousands of rows."""
    return memory_bytes // 256


def held_bytes(memory_bytes: int) -> int:
    """Return the bytes that a service may hold until a commit; more make the commit due."""
    return memory_bytes // 8


def queued_bytes(memory_bytes: int) -> int:
    """Return the bytes that a producer may hold until the broker has them."""
    return memory_bytes // 8


def portion_bytes(memory_bytes: int) -> int:
    """Return the approximate size of the results of a step, as columns."""
    return memory_bytes // 128
