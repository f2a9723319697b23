"""A key of observed records: a name or id that many of them share."""

import re
from collections.abc import Iterable

from tidemark.infer.observed import BOOL, INT, NULL, TEXT, Observed, Path

_ID = re.compile(r"(.*[_-])?(id|key|name|user|login|device|sensor|host|account|customer)", re.I)
_WORDS = re.compile(
    r"type|level|status|category|country|city|service|action|verb|method|path", re.I
)
_ID_ENDS = re.compile(r".*[a-z](Id|ID|Key)")
_SHARED = 0.5
_PRESENT = 0.9


def key_place(places: Iterable[tuple[Path, Observed]], records: int) -> Path | None:
    """Return the place of a key: text, integers or Booleans that are in most records, repeated."""
    scored = [(_score(path, seen, records), path) for path, seen in places]
    likely = [(score, path) for score, path in scored if score is not None]
    return max(likely, key=lambda each: each[0])[1] if likely else None


def _score(path: Path, seen: Observed, records: int) -> float | None:
    """Return how likely a place is a key, None if it cannot be one."""
    kinds = max(seen.types[TEXT], seen.types[INT], seen.types[BOOL])
    if kinds < seen.types.total() - seen.types[NULL] or kinds < _PRESENT * records:
        return None
    values = len(seen.distinct)
    share = kinds / records
    score = 6.0 * share - 0.5 * (len(path) - 1)
    score += 2.0 * bool(seen.types[TEXT])
    score += 1.0 if 1 < values <= _SHARED * kinds else -1.0 if values == 1 else -3.0
    name = path[-1]
    if _ID.fullmatch(name) or _ID_ENDS.fullmatch(name):
        score += 2.0
    elif _WORDS.fullmatch(name):
        score += 1.5
    return score - 1.0 * bool(seen.types[BOOL])
