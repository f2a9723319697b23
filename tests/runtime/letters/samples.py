"""A letter to select, count and send again."""

from tidemark.runtime.letters.selection import StoredLetter
from tidemark.serde.letters import Letter

NOW = 1_772_366_400_000  # 2026-03-01T12:00:00Z


def stored(number: int = 5, at_ms: int = NOW, **fields: object) -> StoredLetter:
    given = {
        "reason": "column a: expected int", "stage": "parse", "topic": "t", "partition": 0,
        "offset": 7, "key": "k", **fields,
    }  # fmt: skip
    return StoredLetter(number, at_ms, Letter(**given))  # type: ignore[arg-type]
