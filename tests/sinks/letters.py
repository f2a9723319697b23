"""Dead letters of a sink, kept in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidemark.serde.records import DeadLetter


@dataclass
class Letters:
    """Takes dead letters in the place of a writer to Kafka."""

    written: list[DeadLetter] = field(default_factory=list)
    writes: int = 0
    count: int = 0

    def write(self, letters: Sequence[DeadLetter]) -> None:
        self.written += letters
        self.writes += 1
