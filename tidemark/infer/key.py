"""A key of observed records: a name or id that many of them share."""

from collections.abc import Iterable

from tidemark.infer.names import SHARED, WORDS
from tidemark.infer.observed import BOOL, INT, NULL, TEXT, Observed, Path

_SHARED = 0.5
_UNIQUE = 0.9
_PRESENT = 0.9
_LONG = 60
_TYPES = (TEXT, INT, BOOL)


def key_place(places: Iterable[tuple[Path, Observed, str]], records: int) -> Path | None:
    """Return the place of a key: text, integers or Booleans that are in most records, repeated.

    ``places``: with what was observed there, and the type of the column.
    """
    scored = [(_score(path, seen, text, records), path) for path, seen, text in places]
    likely = [(score, path) for score, path in scored if score is not None]
    return max(likely, key=lambda each: each[0])[1] if likely else None


def _score(path: Path, seen: Observed, text: str, records: int) -> float | None:
    """Return how likely a place is a key, None if it cannot be one."""
    present = seen.types.total() - seen.types[NULL] - seen.texts[NULL]
    if text not in _TYPES or present < _PRESENT * records:
        return None
    values = len(seen.distinct)
    score = 6.0 * present / records - 0.5 * (len(path) - 1)
    score += 1.0 if 1 < values <= _SHARED * present else -3.0
    score -= 3.0 * (values > _UNIQUE * present)
    if SHARED.fullmatch(path[-1]):
        score += 2.0
    elif WORDS.fullmatch(path[-1]):
        score += 1.5
    elif text == INT:
        score -= 1.5  # likely a measure
    if text == TEXT:
        score += 2.0
        lengths = [len(value) for value in list(seen.distinct)[:100] if isinstance(value, str)]
        score -= 2.0 * (sum(lengths) > _LONG * len(lengths) > 0)
    return score - 1.0 * (text == BOOL)
