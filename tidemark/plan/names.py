"""Names that users choose, of columns, outputs and pipelines; and the topics named after them."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from itertools import count
from typing import Any, get_args, get_origin

import polars as pl

from tidemark.core.operators.ports import ALL
from tidemark.core.rows.expression import METADATA, Columns, as_written, digest
from tidemark.core.rows.schema import INSTANT
from tidemark.core.time.raw_topics import is_pattern
from tidemark.core.windows.pane import END_OF_INPUT, PANE_COLUMNS, WINDOW
from tidemark.errors import PipelineError

LONGEST_TOPIC = 249
_LONGEST_STAGE = 100

PANE_FIELDS = (WINDOW, *PANE_COLUMNS, END_OF_INPUT)
"""Fields of result records, in addition to the key and the values."""

KEYTYPES = (
    pl.String, pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Int64,
    pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Date,
)  # fmt: skip

_LOG = "the log of a key"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_PATTERN = re.compile(r"\*|\^.*\$", re.DOTALL)
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
TYPES: dict[Any, pl.DataType] = {
    str: pl.String(),
    int: pl.Int64(),
    float: pl.Float64(),
    bool: pl.Boolean(),
    bytes: pl.Binary(),
    datetime: INSTANT,
    date: pl.Date(),
}


def require_topic(name: object, what: str) -> str:
    """Return ``name`` if it is a legal Kafka topic name; ``what`` names it in the error.

    Raises:
        PipelineError: the name has illegal characters, or is too long.
    """
    if not isinstance(name, str) or not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise PipelineError(
            f"{what}: {name!r} is not a legal topic name; use letters, digits, '.', '_' and '-'"
        )
    if len(name) > LONGEST_TOPIC:
        raise PipelineError(f"{what}: {name!r} is longer than {LONGEST_TOPIC} characters")
    return name


def source_text(topics: Sequence[str]) -> str:
    """Return the topics of a source as ``source`` takes them: a name, a list or a pattern."""
    if len(topics) > 1:
        return repr(list(topics))
    (topic,) = topics
    return f"topics={topic[1:-1]!r}" if is_pattern(topic) else repr(topic)


def stats_topic(pipeline: str) -> str:
    """Return the topic of the statistics of a pipeline's services."""
    return f"{pipeline}.stats"


def retried_topic(pipeline: str) -> str:
    """Return the topic that says which dead letters were sent again."""
    return f"{pipeline}.dead-letters.retried"


def generations_topic(pipeline: str) -> str:
    """Return the topic that says which results belong to the present state of each operator."""
    return f"{pipeline}.generations"


def progress_topic(pipeline: str, operator: str) -> str:
    """Return the topic that says what each partition of an operator has reached."""
    return f"{pipeline}.{operator}.progress"


def stage_name(parts: Sequence[str], taken: Collection[str]) -> str:
    """Return the name of a stage, made of what the user wrote; a number keeps it from ``taken``.

    A long name is shortened, with a digest.
    """
    name = ".".join(map(_stage_part, parts))
    if len(name) > _LONGEST_STAGE:
        name = f"{name[:_LONGEST_STAGE]}-{digest([name])}"
    numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(each for each in numbered if each not in taken)


def _stage_part(text: str) -> str:
    """Return text in characters of topic names; a digest tells letters apart that these lack."""
    words = re.sub(r"[^a-zA-Z0-9_]+", "-", text).strip("-")
    if words and text.isascii():
        return words
    return "-".join(filter(None, (words, digest([text]))))


def topic_part(text: str) -> str:
    """Return text with each character that is illegal in a topic name replaced by ``_``."""
    return re.sub(r"[^a-zA-Z0-9._-]", "_", text)


def log_topic(pipeline: str, key: Mapping[str, str], taken: Collection[str]) -> str:
    """Return the topic of the first log of a key; types or a number keep it apart from ``taken``.

    ``key``: types by column name; none for streams without a key.

    Raises:
        PipelineError: the name is too long.
    """
    columns = "-".join("all" if name == ALL else name for name in key)
    name = f"{pipeline}.by-{topic_part(columns)}" if key else f"{pipeline}.unkeyed"
    if key and f"{name}.log" in taken:
        name = f"{name}.{topic_part('-'.join(map(str.lower, key.values())))}"
    topic = f"{name}.log"
    return next_log_topic(topic, taken) if topic in taken else require_topic(topic, _LOG)


def next_log_topic(first: str, taken: Collection[str]) -> str:
    """Return the topic of a further log of the key whose log is ``first``: the next number.

    Raises:
        PipelineError: the name is too long.
    """
    name = first.removesuffix(".log")
    numbered = (f"{name}.{number}.log" for number in count(2))
    return require_topic(next(topic for topic in numbered if topic not in taken), _LOG)


def require_new_columns(names: Sequence[str], what: str) -> None:
    """Raise PipelineError if a name is not a legal column name, or is reserved."""
    for name in names:
        if not isinstance(name, str) or not name:
            raise PipelineError(f"{what}: {name!r} is not a column name")
        if _PATTERN.fullmatch(name) or _ESCAPED.search(name):
            raise PipelineError(
                f"{what}: column {name!r}: '*' and '^...$' mean several columns to polars; quotes, "
                "backslashes and control characters are not allowed in a name"
            )
        if name.startswith("@"):
            raise PipelineError(f"{what}: column {name!r}: names that begin with '@' are reserved")
        if name in METADATA:
            raise PipelineError(
                f"{what}: column {name!r} is a metadata column of the Kafka record; choose another "
                "name"
            )


def require_top_level(names: Sequence[str], what: str) -> None:
    """Raise PipelineError if a name of a source's column reads like the path of a nested field."""
    for name in names:
        where = f"{what}: column {name!r}"
        if "[" in name or "]" in name:
            column = re.split(r"[.\[]", name)[0]
            raise PipelineError(
                f"{where} reads like an item of a list; declare the list, and use "
                f"explode({column!r}) or col({column!r}).list.get(0)"
            )
        if "." in name:
            flat = name.replace(".", "_").strip("_")
            raise PipelineError(
                f"{where} reads like the path of a nested field; write {{{flat!r}: "
                f"field({name!r}, ...)}}, or field([{name!r}], ...) if the member has this name"
            )


def require_member_names(names: Sequence[object], what: str) -> None:
    """Raise PipelineError if a name cannot be that of a nested field."""
    for name in names:
        if not isinstance(name, str) or not name:
            raise PipelineError(f"{what}: {name!r} is not the name of a member")
        if _PATTERN.fullmatch(name) or _ESCAPED.search(name):
            raise PipelineError(
                f"{what}: member {name!r}: '*' and '^...$' mean several fields to polars; quotes, "
                "backslashes and control characters are not allowed in a name"
            )


def column_types(schema: object, what: str) -> dict[str, pl.DataType]:
    """Return a schema of Python types as polars types.

    Raises:
        PipelineError: the schema is empty, or a name or type is not supported.
    """
    if not isinstance(schema, Mapping) or not schema:
        raise PipelineError(f"{what}: {schema!r} is not a dict of column names and types")
    require_new_columns(list(schema), what)
    return {name: _type(kind, f"{what}: column {name!r}") for name, kind in schema.items()}


def _type(kind: object, what: str) -> pl.DataType:
    if isinstance(kind, type) and kind in TYPES:
        return TYPES[kind]
    if get_origin(kind) is list:
        return pl.List(_type(get_args(kind)[0], what))
    if isinstance(kind, list) and len(kind) == 1:
        return pl.List(_type(kind[0], what))
    if isinstance(kind, Mapping) and kind:
        require_member_names(list(kind), what)
        return pl.Struct({name: _type(each, f"{what}.{name}") for name, each in kind.items()})
    raise PipelineError(
        f"{what}: {as_written(kind)} is not a type; use str, int, float, bool, bytes, datetime, "
        "date, list[...] or a dict of fields"
    )


def require_key(key: Sequence[str], columns: Columns, what: str) -> None:
    """Raise PipelineError if a key column's type is not of KEYTYPES, or its name is taken.

    Values of these types compare and print the same everywhere.
    """
    for name in key:
        dtype = columns[name]
        if not isinstance(dtype, KEYTYPES) and dtype != INSTANT:
            hint = " (0.0 and -0.0 are equal, NaN is not)" if dtype.is_float() else ""
            raise PipelineError(
                f"{what}: column {name!r} is {dtype}, which is not a type for keys{hint}; use a "
                f"String, an integer, a Boolean, a Date or a {INSTANT}"
            )
        if name in PANE_FIELDS:
            raise PipelineError(
                f"{what}: column {name!r} clashes with a field of every pane; "
                f"key_by(key_{name}={name!r}) gives the key another name"
            )


def require_values(names: Sequence[str], key: Sequence[str], what: str) -> None:
    """Raise PipelineError if an aggregate's name clashes with another field of panes."""
    require_new_columns(names, what)
    for name in names:
        if name in PANE_FIELDS:
            raise PipelineError(f"{what}: {name!r} clashes with a field of every pane")
        for column in key:
            if column == name or column.startswith(f"{name}."):
                raise PipelineError(f"{what}: {name!r} clashes with key column {column!r}")
