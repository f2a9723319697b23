"""Raw topics as sources name them: by name, or by a pattern between slashes, ``/orders-.*/``.

No topic has a slash in its name, so the two never mix.  A pattern is a regular expression that must
match the whole name of a topic.
"""

import re
from collections.abc import Collection, Mapping

from tidemark.core.time.segment import is_operator_source

_SLASH = "/"


def pattern_name(pattern: str) -> str:
    """Return the name of a pattern, for sets of raw topics."""
    return f"{_SLASH}{pattern}{_SLASH}"


def is_pattern(name: str) -> bool:
    """Return whether a name of raw topics is a pattern."""
    return name.startswith(_SLASH)


def covers(names: Collection[str], topic: str) -> bool:
    """Return whether one of ``names`` is the topic, or a pattern that matches it.

    An operator (``operator_source``) is only covered by its name.
    """
    return topic in names or any(
        re.fullmatch(name[1:-1], topic) is not None
        for name in names
        if is_pattern(name) and not is_operator_source(topic)
    )


def value_of(values: Mapping[str, int], topic: str) -> int | None:
    """Return the value of the topic, or of a pattern that matches it; None without either."""
    if topic in values:
        return values[topic]
    return next((value for name, value in values.items() if covers([name], topic)), None)
