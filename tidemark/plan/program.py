"""The program of ingest: everything that decides which rows a log holds.

Ingest records the program that wrote the logs, and compares it with its own at each start
(docs/operations.md, "Changing a pipeline").  A log with rows of two programs that differ is of no
result.  What a Python function of ``apply`` or ``flat_map`` does is not compared, only its name.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec
import polars as pl

from tidemark.core.rows.row_operators import Apply, Select, WithColumns
from tidemark.core.rows.stateless import StatelessGraph, Step
from tidemark.core.time.duration import duration_text
from tidemark.core.time.event_time import instant_text
from tidemark.errors import StateError
from tidemark.plan.explain import event_time_text, watermark_text
from tidemark.plan.physical import LogPlan, Plan, SourcePlan

VERSION = 1


class SourceProgram(msgspec.Struct, frozen=True):
    """How a raw topic is read: the types of its columns, and its settings of time, as text.

    ``topic_id`` and ``shifts`` say which topic it is: the broker's id, and by partition what the
    log adds to its offsets.  They are no part of the pipeline.
    """

    columns: dict[str, str]
    time: dict[str, str]
    topic_id: str = ""
    shifts: dict[str, int] = msgspec.field(default_factory=dict)
    format: str = "json"


class StreamProgram(msgspec.Struct, frozen=True):
    """How the rows of a stream are made.

    ``columns``: types.  ``rows``: by source, the operators that decide which rows there are.
    ``made``: by source and column, the expression of a column.
    """

    columns: dict[str, str]
    rows: dict[str, list[str]]
    made: dict[str, dict[str, str]]


class LogProgram(msgspec.Struct, frozen=True):
    """The partitions, the types of the key, and the streams of a log."""

    partitions: int
    key: dict[str, str]
    streams: dict[str, StreamProgram]


class Program(msgspec.Struct, frozen=True):
    """The program of ingest; ``polars``: the version that printed the expressions."""

    version: int
    polars: str
    sources: dict[str, SourceProgram]
    logs: dict[str, LogProgram]


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two programs that no log may have.

    ``expressions``: it is in the text of an expression.  ``topics``: no reset helps, because the
    topics of the pipeline would have to be others.
    """

    what: str
    before: str
    after: str
    expressions: bool = False
    topics: bool = False

    def __str__(self) -> str:
        """Return what changed, from what to what."""
        return f"{self.what} was {self.before}, is now {self.after}"


def program_of(plan: Plan, matched: Iterable[str] = ()) -> Program:
    """Return the program of a plan; ``matched``: raw topics that belong to its patterns now."""
    traces = {source.name: _traces(source.graph) for source in plan.sources}
    topics = dict.fromkeys([*plan.named_topics, *matched])
    sources = {topic: source_program(plan.source_of(topic)) for topic in topics}
    logs = {log.topic: _log(log, plan, traces) for log in plan.logs}
    return Program(VERSION, pl.__version__, sources, logs)


def with_topic(
    program: Program, topic: str, topic_id: str, shifts: Mapping[str, int] = MappingProxyType({})
) -> Program:
    """Return a program whose source ``topic`` is the raw topic of an id."""
    source = msgspec.structs.replace(program.sources[topic], topic_id=topic_id, shifts=dict(shifts))
    return msgspec.structs.replace(program, sources={**program.sources, topic: source})


def encode_program(program: Program) -> bytes:
    """Return a program as bytes."""
    return msgspec.json.encode(program)


def decode_program(data: bytes) -> Program:
    """Return the program that ``encode_program`` wrote.

    Raises:
        StateError: the bytes are not a program, or one of a newer version.
    """
    try:
        program = msgspec.json.decode(data, type=Program)
    except msgspec.DecodeError as error:
        raise StateError(f"the recorded program of ingest cannot be read: {error}") from None
    if program.version > VERSION:
        raise StateError(
            f"the recorded program of ingest has version {program.version}, this Tidemark reads "
            f"up to {VERSION}: install the newer Tidemark that wrote it"
        )
    return program


def joined(before: Program, after: Program) -> Program:
    """Return ``after`` with the sources and streams that only ``before`` has.

    They stay in the record, because their rows stay in the logs.  A raw topic stays the one that
    ``before`` knows.
    """
    logs = {**before.logs, **after.logs}
    for topic in before.logs.keys() & after.logs.keys():
        old, new = before.logs[topic], after.logs[topic]
        logs[topic] = msgspec.structs.replace(new, streams={**old.streams, **new.streams})
    sources = {**before.sources, **after.sources}
    for topic, known in before.sources.items():
        if known.topic_id:
            sources[topic] = msgspec.structs.replace(
                sources[topic], topic_id=known.topic_id, shifts=known.shifts
            )
    return msgspec.structs.replace(after, sources=sources, logs=logs)


def new_streams(before: Program, after: Program) -> dict[str, list[str]]:
    """Return the streams, by log, that ``before`` does not have in a log that it has."""
    return {
        topic: fresh
        for topic, log in after.logs.items()
        if topic in before.logs
        and (fresh := [name for name in log.streams if name not in before.logs[topic].streams])
    }


def changes(before: Program, after: Program) -> list[Change]:
    """Return the differences that no log may have, in sources and streams that both have."""
    found: list[Change] = []
    for topic in after.sources.keys() & before.sources.keys():
        found += _source_changes(topic, before.sources[topic], after.sources[topic])
    for topic, log in after.logs.items():
        if topic in before.logs:
            found += _log_changes(topic, before.logs[topic], log)
    if before.polars != after.polars:  # another version may print the same expression otherwise
        found = [each for each in found if not each.expressions]
    return sorted(found, key=lambda change: change.what)


def _source_changes(topic: str, before: SourceProgram, after: SourceProgram) -> Iterator[Change]:
    if before.format != after.format:
        yield Change(f"the format of source {topic}", before.format, after.format)
    for name, text in after.time.items():
        if before.time.get(name) != text:
            old = before.time.get(name, "none")
            expressions = "col(" in old and "col(" in text
            yield Change(f"the {name} of source {topic}", old, text, expressions)
    yield from _differing(f"in source {topic} the type of", before.columns, after.columns)


def _log_changes(topic: str, before: LogProgram, after: LogProgram) -> Iterator[Change]:
    if before.partitions != after.partitions:
        old, new = str(before.partitions), str(after.partitions)
        yield Change(f"the number of partitions of log {topic}", old, new, topics=True)
    if before.key != after.key:
        yield Change(f"the key of log {topic}", _typed(before.key), _typed(after.key))
    for name, stream in after.streams.items():
        if name in before.streams:
            yield from _stream_changes(f"log {topic}, stream {name}", before.streams[name], stream)


def _stream_changes(where: str, before: StreamProgram, after: StreamProgram) -> Iterator[Change]:
    yield from _differing(f"in {where}, the type of", before.columns, after.columns)
    for topic in after.rows:
        old, new = before.rows.get(topic, []), after.rows[topic]
        if old != new:
            texts = (_listed(old), _listed(new))
            yield Change(f"in {where}, the choice of rows", *texts, expressions=True)
        yield from _differing(
            f"in {where}, the expression of",
            before.made.get(topic, {}),
            after.made[topic],
            expressions=True,
        )


def _differing(
    what: str, before: Mapping[str, str], after: Mapping[str, str], *, expressions: bool = False
) -> Iterator[Change]:
    for name in after:
        if name in before and before[name] != after[name]:
            yield Change(f"{what} {name}", before[name], after[name], expressions)


def _typed(columns: Mapping[str, str]) -> str:
    return "(" + ", ".join(f"{name}: {dtype}" for name, dtype in columns.items()) + ")"


def _listed(operators: Sequence[str]) -> str:
    return ", ".join(operators) or "all rows"


def _types(columns: Mapping[str, pl.DataType]) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in columns.items()}


def source_program(plan: SourcePlan) -> SourceProgram:
    """Return how the raw topics of a source are read."""
    earliest, future = plan.min_time_ms, plan.max_future_ms
    time = {
        "event time": event_time_text(plan.event_time, _text),
        "watermark": watermark_text(plan.watermark, _text),
        "min_time": "none" if earliest is None else instant_text(earliest),
        "max_future": "none" if future is None else duration_text(future),
    }
    return SourceProgram(plan.schema.texts(), time, format=str(plan.format))


def _log(log: LogPlan, plan: Plan, traces: Mapping[str, "Sequence[_Trace]"]) -> LogProgram:
    streams = {}
    for stream in log.streams:
        ends = {
            source.name: traces[source.name][source.graph.streams[stream.name].step]
            for source in plan.sources
            if stream.name in source.graph.streams
        }
        streams[stream.name] = StreamProgram(
            _types(stream.columns),
            {topic: list(end.rows) for topic, end in ends.items()},
            {topic: dict(end.made) for topic, end in ends.items()},
        )
    return LogProgram(log.partitions, _types(log.key), streams)


@dataclass(frozen=True, slots=True)
class _Trace:
    """What made the rows of a step: ``rows`` chose them, ``made`` has a text for each column."""

    rows: tuple[str, ...]
    made: Mapping[str, str]

    def of(self, names: Sequence[str]) -> str:
        """Return a digest of the columns ``names``, "" if all of them are columns of the source."""
        made = [(name, self.made.get(name, name)) for name in names]
        computed = [f"{name}={text}" for name, text in made if text != name]
        return f" #{_digest(computed)}" if computed else ""


def _traces(graph: StatelessGraph) -> list[_Trace]:
    """Return the trace of each step of a graph."""
    traces: list[_Trace] = []
    for step in graph.steps:
        inputs = [traces[number] for number in step.inputs]
        if not inputs:
            traces.append(_Trace((), {name: name for name in step.columns}))
        elif step.operator is None:
            traces.append(_united(inputs, step))
        else:
            traces.append(_after(step, inputs[0]))
    return traces


def _united(inputs: Sequence[_Trace], step: Step) -> _Trace:
    if len(inputs) == 1:
        return inputs[0]
    rows = " and ".join(_listed(each.rows) for each in inputs)
    made = {
        name: " or ".join(dict.fromkeys(each.made[name] for each in inputs))
        for name in step.columns
    }
    return _Trace((f"union of {rows}",), made)


def _after(step: Step, before: _Trace) -> _Trace:
    """Return the trace of a step with an operator."""
    operator = step.operator
    assert operator is not None
    roots = [name for each in operator.expressions for name in each.meta.root_names()]
    texts = map(_text, operator.expressions)
    label = operator.label  # it may have the expressions, but shortened
    whole = " ".join([label, *(text for text in texts if text not in label)]) + before.of(roots)
    keeps_rows = isinstance(operator, WithColumns | Select | Apply)
    made = {name: before.made.get(name, whole) for name in step.columns}
    types = getattr(operator, "types", {})
    made |= dict.fromkeys(types, operator.label)
    if isinstance(operator, WithColumns | Select) and len(types) == len(operator.expressions):
        made |= {
            name: _made(expression, before)
            for name, expression in zip(types, operator.expressions, strict=True)
        }
    return _Trace(before.rows if keeps_rows else (*before.rows, whole), made)


def _made(expression: pl.Expr, before: _Trace) -> str:
    """Return how an expression makes its column; a column under a new name is made as before."""
    bare = expression.meta.undo_aliases()
    if bare.meta.is_column():
        (name,) = bare.meta.root_names()
        return before.made.get(name, name)
    return _text(bare) + before.of(bare.meta.root_names())


def _text(expression: pl.Expr) -> str:
    """Return an expression as text; a digest completes a text that polars shortens."""
    text = " ".join(str(expression).split())
    if "…" not in text:
        return text
    return f"{text} #{_digest([expression.meta.serialize().hex()])}"


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]
