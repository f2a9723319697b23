"""Counts of letters by reason or stage, and the newest letters, in bounded memory.  Pure."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from tidemark.runtime.letters.selection import StoredLetter
from tidemark.runtime.service.reasons import OTHERS, pattern

By = Literal["reason", "stage", "topic"]

_MOST_GROUPS = 1_000
_KEPT_CHARACTERS = 300


@dataclass
class Summary:
    """What a list shows: the number of letters, their groups, and the newest ones.

    ``by``: what letters of a group have in common.  ``newest``: how many letters are kept, without
    the ends of long keys and values.
    """

    by: By | None = None
    newest: int = 20
    count: int = 0
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], StoredLetter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept: deque[StoredLetter] = deque(maxlen=self.newest)

    def add(self, stored: StoredLetter) -> None:
        """Count a letter, and keep it until ``newest`` others have come."""
        self.count += 1
        if self.by is not None:
            group = self._group(stored)
            self.groups[group] += 1
            self.examples[group] = _shortened(stored)
        if self.newest:
            self.kept.append(_shortened(stored))

    def _group(self, stored: StoredLetter) -> tuple[str, str]:
        """Return the group of a letter: one for all others when there are too many groups."""
        letter = stored.letter
        group = {
            "reason": (pattern(letter.reason), letter.stage),
            "stage": ("", letter.stage),
            "topic": (letter.topic, ""),
        }[self.by or "stage"]
        if group in self.groups or len(self.groups) < _MOST_GROUPS:
            return group
        return OTHERS, ""


def _shortened(stored: StoredLetter) -> StoredLetter:
    letter = stored.letter
    short = msgspec.structs.replace(
        letter,
        reason=_short(letter.reason),
        key=None if letter.key is None else _short(letter.key),
        value=None if letter.value is None else _short(letter.value),
    )
    return StoredLetter(stored.id, stored.at_ms, short)


def _short(text: str) -> str:
    return text if len(text) <= _KEPT_CHARACTERS else f"{text[:_KEPT_CHARACTERS]}..."
