"""Counts of reasons: why records became dead letters, and why rows are late.

Texts that differ only in numbers and quoted text are one reason, and the number of reasons is
bounded.  So records and metrics stay small whatever comes.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import msgspec

OTHERS = "(other reasons)"

_MOST_REASONS = 20
_KEPT_CHARACTERS = 200
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_RULE = re.compile(r"^rule .* (changed|ended)$", re.DOTALL)  # of patterns; its name is any text
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d.,:TZ_-]*")


class ReasonStats(msgspec.Struct, frozen=True):
    """How often something had a reason since the start; ``stage``: of dead letters."""

    reason: str
    count: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    stage: str = ""


class Reasons:
    """Counts of reasons by stage and pattern."""

    def __init__(self) -> None:
        """Start without reasons."""
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, reasons: Iterable[tuple[str, str]]) -> None:
        """Count pairs of stage and reason."""
        for (stage, reason), count in Counter(reasons).items():
            group = stage, pattern(reason)[:_KEPT_CHARACTERS]
            known = group in self._counts or len(self._counts) < _MOST_REASONS
            self._counts[group if known else ("", OTHERS)] += count

    def stats(self) -> list[ReasonStats]:
        """Return the reasons, the most frequent first."""
        return [
            ReasonStats(reason, count, stage)
            for (stage, reason), count in self._counts.most_common()
        ]


def pattern(reason: str) -> str:
    """Return a reason without what differs from record to record.

    That is quoted text, numbers, and the name of a rule.
    """
    return _NUMBER.sub("N", _QUOTED.sub("'...'", _RULE.sub(r"rule ... \1", reason)))
