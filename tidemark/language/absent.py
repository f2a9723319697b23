"""Errors for methods that a stream or table does not have: its kind, and what to write instead."""

import difflib
from collections.abc import Mapping

from tidemark.errors import PipelineError

_KINDS = {
    "Stream": "a stream without a key",
    "KeyedStream": "a keyed stream",
    "WindowedStream": "a stream in windows",
    "AggregatedStream": "a stream of results",
    "JoinedStream": "a joined stream",
    "Matches": "a pattern without select()",
    "MatchedStream": "a stream of matches",
    "Table": "a table",
    "BroadcastTable": "a broadcast table",
}

_OF_TABLE = "join a stream with it: stream.join(table); other operators are before table()"

_OTHER_NAMES = {
    "assign": "with_columns()",
    "cast": "with_columns(name=col('name').cast(...))",
    "count": "aggregate(name=count())",
    "deduplicate": "distinct_by()",
    "distinct": "distinct_by()",
    "drop": "select() with the columns to keep",
    "drop_duplicates": "distinct_by()",
    "flatMap": "flat_map()",
    "group_by": "key_by()",
    "groupby": "key_by()",
    "groupBy": "key_by()",
    "keyBy": "key_by()",
    "limit": "aggregate(name=top_k(...))",
    "map": "with_columns() or apply()",
    "reduce": "aggregate() with custom()",
    "rename": "select(new_name=col('old_name')) with all columns",
    "sink": "to()",
    "sort": "aggregate(name=top_k(...))",
    "unique": "distinct_by()",
    "where": "filter()",
    "write": "to()",
}
"""Names that other libraries have, and what to write here."""

_OF_PIPELINES = {
    "peek": "call peek(stream, inputs) on the pipeline",
    "run": "call run(inputs) on the pipeline",
}

_WAYS = {
    "AggregatedStream": "call {} on the result of aggregate()",
    "WindowedStream": "call window() before {}",
    "JoinedStream": "call {} on the result of join()",
    "MatchedStream": "call match() and select() before {}",
}
"""How to come to a kind of stream that has a method, by kind."""


class AbsentMethodError(PipelineError, AttributeError):
    """A stream has no such method; to ``hasattr`` it is an AttributeError."""


def absent(stream: object, name: str) -> AttributeError:
    """Return the error for a method that a stream does not have.

    A name that begins with ``_`` gives a plain AttributeError: Python itself asks for it.
    """
    if name.startswith("_"):
        return AttributeError(f"{type(stream).__name__!r} object has no attribute {name!r}")
    kind = next(each.__name__ for each in type(stream).__mro__ if each.__name__ in _KINDS)
    remedy = _OF_TABLE if kind in ("Table", "BroadcastTable") else _remedy(kind, name, _methods())
    return AbsentMethodError(f"{name}: {_KINDS[kind]} has no such method; {remedy}")


def _remedy(kind: str, name: str, methods: Mapping[str, list[str]]) -> str:
    """Say what to write instead of a method that ``kind`` does not have."""
    of_stream, of_keyed = name in methods["Stream"], name in methods["KeyedStream"]
    if name == "key_by":
        return "name all columns of the key in one key_by(), or aggregate() first"
    if kind == "Matches" and name in methods["MatchedStream"]:
        return f"call select() before {name}; it says what a match shows"
    if kind == "WindowedStream" and name == "window":
        return "a stream has windows once; for windows over results, call aggregate() and key_by()"
    if kind == "WindowedStream" and of_stream:
        before = "window()" if of_keyed else "key_by()"
        return f"call aggregate() first, or use {name} before {before}"
    if of_keyed:
        return f"use {name} before window()" if kind == "WindowedStream" else "call key_by() first"
    if of_stream:
        return f"use {name} before key_by()"
    owner = next((each for each in _WAYS if name in methods[each]), None)
    if owner is not None:
        return _WAYS[owner].format(name)
    if name in _OF_PIPELINES:
        return _OF_PIPELINES[name]
    if name in _OTHER_NAMES:
        used = _OTHER_NAMES[name]
        method = used.partition("(")[0]
        then = "" if method in methods[kind] else f": {_remedy(kind, method, methods)}"
        return f"use {used}{then}"
    known = sorted({each for names in methods.values() for each in names})
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(methods[kind])}"


def _methods() -> dict[str, list[str]]:
    """Return the public methods and properties of each kind of stream."""
    # These modules use this one.
    from tidemark.language.aggregated import AggregatedStream
    from tidemark.language.joins.joined_stream import JoinedStream
    from tidemark.language.keyed import KeyedStream
    from tidemark.language.patterns.matched_stream import MatchedStream
    from tidemark.language.patterns.matches import Matches
    from tidemark.language.stream import Stream
    from tidemark.language.windowed import WindowedStream

    streams = (Stream, KeyedStream, WindowedStream, AggregatedStream, JoinedStream, MatchedStream)
    kinds: tuple[type, ...] = (*streams, Matches)
    return {
        kind.__name__: [name for name in dir(kind) if not name.startswith("_")] for kind in kinds
    }
