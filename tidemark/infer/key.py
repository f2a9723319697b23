"""A key of observed records: a name or id that many of them share."""

from collections.abc import Iterable

from tidemark.infer.names import COMMA_NUMBER, SHARED, WORDS
from tidemark.infer.observed import BOOL, INT, NULL, TEXT, Observed, Path

_SHARED = 0.5
_UNIQUE = 0.9
_PRESENT = 0.9
_LONG = 60
_MANY = 20

_TYPES = (TEXT, INT, BOOL)


def key_place(places: Iterable[tuple[Path, Observed, str]], records: int) -> Path | None:
    """Return the place of a key: text, integers or Booleans that are in most records, repeated.

    ``places``: with what was observed there, and the type of the column.
    """
    scored = [(_score(path, seen, text, records), path) for path, seen, text in places]
    likely = [(score, path) for score, path in scored if score is not None]
    return max(likely, key=lambda each: each[0])[1] if likely else None


def _score(path: Path, seen: Observed, text: str, records: int) -> float | None:
    """Return how likely a place is a key, None if it cannot be one.

    These cannot: measurements, which are integers without the name of a key or numbers with a
    decimal comma; a place with another value in each of many records; and a place with one value in
    all of many records, without the name of a key.
    """
    present = seen.types.total() - seen.types[NULL] - seen.texts[NULL]
    if text not in _TYPES or present < _PRESENT * records:
        return None
    values = len(seen.distinct)
    is_shared, is_word = (names.fullmatch(path[-1]) is not None for names in (SHARED, WORDS))
    is_measure = text == INT and not is_shared and not is_word
    is_constant = values == 1 and not is_shared and not is_word
    if is_measure or (present >= _MANY and (values == present or is_constant)):
        return None
    score = 6.0 * present / records - 0.5 * (len(path) - 1)
    score += 1.0 if 1 < values <= _SHARED * present else -3.0
    score -= 3.0 * (values > _UNIQUE * present)
    score += 2.0 if is_shared else 1.5 * is_word
    if text == TEXT:
        score += 2.0
        some = [value for value in list(seen.distinct)[:100] if isinstance(value, str)]
        score -= 2.0 * (sum(map(len, some)) > _LONG * len(some) > 0)
        if all(map(COMMA_NUMBER.fullmatch, some)):
            return None
    return score - 1.0 * (text == BOOL)
