"""What the tests of the page share: records with known results, and their pipeline."""

from typing import NamedTuple

from tests.kafka.support.stack import Stack, move
from tidemark.embedded.broker import Broker

T = 1_772_438_400_000
HOSTILE = b"<img src=x onerror=alert(1)>"

MOVES = [
    *((number, None, move(name, T + 1_000 * second)) for second in range(40) for number, name in
      enumerate(("ann", "bob"))),
    (0, None, move("ann", T + 2_000)),
    (1, None, HOSTILE),
    (1, None, b"not json"),
]  # fmt: skip
"""Moves of two players in two partitions; then a late move, and two records that are no moves."""
ROWS = len(MOVES) - 2
"""How many of them become rows."""


class Watched(NamedTuple):
    """A running pipeline, its broker, and the address and port of its monitor."""

    stack: Stack
    url: str
    broker: Broker
    port: int
