"""Patterns of dates and times in text: directives such as ``%d/%b/%Y`` become a regular expression.

The directives mean what they mean in Python's ``strptime``, with names in English; ``%.f`` is an
optional fraction.  Numbers side by side have a fixed width, so that no text has two readings.  See
docs/time.md.
"""

import re
from dataclasses import dataclass
from functools import cache

from tidemark.errors import PipelineError

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_TWO = "[0-9]{2}"
_MONTH_NAMES = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_DAY_NAMES = (
    "(?i:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|"
    "sat(?:urday)?|sun(?:day)?)"
)
BLANKS = "[ \u00a0\u202f]+"
OFFSET = r"(?:(?P<utc>[Zz])|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-9]{2}))?)"
ZONE = "(?P<zone>(?i:utc|ut|gmt|z)|[A-Za-z]{3,5}|[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)+)"
"""UTC, an abbreviation, which is refused later, or an IANA name; not AM and PM."""

_NUMBERS = {
    "Y": ("year", "[0-9]{4}", "[0-9]{4}"),
    "y": ("short_year", _TWO, _TWO),
    "G": ("week_year", "[0-9]{4}", "[0-9]{4}"),
    "m": ("month", "[0-9]{1,2}", _TWO),
    "d": ("day", "[0-9]{1,2}", _TWO),
    "j": ("day_of_year", "[0-9]{1,3}", "[0-9]{3}"),
    "V": ("week", "[0-9]{1,2}", _TWO),
    "u": ("weekday", "[1-7]", "[1-7]"),
    "H": ("hour", "[0-9]{1,2}", _TWO),
    "I": ("hour_of_half", "[0-9]{1,2}", _TWO),
    "M": ("minute", "[0-9]{1,2}", _TWO),
    "S": ("second", "[0-9]{1,2}", _TWO),
    "f": ("fraction", "[0-9]{1,12}", "[0-9]{1,12}"),
}
"""By directive: the part, its digits, and its digits beside another number."""

_TEXTS = {
    "b": f"(?P<month_name>(?i:{_MONTH_NAMES}))",
    "a": _DAY_NAMES,
    "p": r"(?P<half>(?i:[ap]\.?m\.?))",
    "z": OFFSET,
    "Z": ZONE,
    ".f": "(?:[.,](?P<fraction>[0-9]{1,12}))?",
    "%": "%",
}
_SAME = {"e": "d", "h": "b", "B": "b", "A": "a"}
_SHORT = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M"}
_TOKEN = re.compile(r"%(\.f|.?)|( +)|([^% ]+)", re.DOTALL)
_DATES = (
    {"year", "month", "day"},
    {"short_year", "month", "day"},
    {"year", "month_name", "day"},
    {"short_year", "month_name", "day"},
    {"year", "day_of_year"},
    {"week_year", "week", "weekday"},
)
_OF_DATES = frozenset().union(*_DATES)
_ORDER = ("hour", "minute", "second", "fraction")


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A regular expression of whole texts with a named group for each part of a time."""

    regex: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the groups, in order."""
        return tuple(re.findall(r"\(\?P<([a-z_]+)>", self.regex))


@cache
def time_pattern(text: str) -> TimePattern:
    """Return the pattern of a text with directives.

    Raises:
        PipelineError: a directive is unknown or repeated, or the parts give no single instant.
    """
    for short, long in _SHORT.items():
        text = text.replace(f"%{short}", long)
    tokens = [_token(match, text) for match in _TOKEN.finditer(text)]
    pieces = []
    for index, (name, piece) in enumerate(tokens):
        beside = {tokens[near][0] for near in (index - 1, index + 1) if 0 <= near < len(tokens)}
        if name not in _NUMBERS:
            pieces.append(piece)
        else:
            part, digits, fixed = _NUMBERS[name]
            pieces.append(f"(?P<{part}>{fixed if beside & _NUMBERS.keys() else digits})")
    pattern = TimePattern(f"^{''.join(pieces)}$")
    _require_instant(pattern.parts, text)
    return pattern


def _token(match: re.Match[str], text: str) -> tuple[str, str]:
    """Return a directive and its expression; the directive of other text is empty."""
    directive, blanks, other = match.groups()
    if blanks or other:
        return "", BLANKS if blanks else re.escape(other)
    directive = _SAME.get(directive, directive)
    if directive not in _NUMBERS and directive not in _TEXTS:
        known = ", ".join(f"%{name}" for name in (*_NUMBERS, *_TEXTS, *_SAME, *_SHORT))
        raise PipelineError(f"{text!r}: no directive %{directive}; there are {known}")
    return directive, _TEXTS.get(directive, "")


def _require_instant(parts: tuple[str, ...], text: str) -> None:
    twice = sorted({part for part in parts if parts.count(part) > 1})
    if twice:
        raise PipelineError(f"{text!r}: two directives give the {twice[0].replace('_', ' ')}")
    found = set(parts)
    if found & _OF_DATES not in _DATES:
        raise PipelineError(
            f"{text!r}: no full date; write %Y with %m or %b and %d, %Y with %j, or %G with %V "
            "and %u"
        )
    if ("half" in found) is not ("hour_of_half" in found) or {"hour", "hour_of_half"} <= found:
        raise PipelineError(f"{text!r}: %I goes with %p, and %H without")
    times = [part in found or (part == "hour" and "half" in found) for part in _ORDER[:3]]
    if times != sorted(times, reverse=True) or ("fraction" in found and not times[2]):
        raise PipelineError(f"{text!r}: a minute needs an hour, a second a minute, %f a second")
