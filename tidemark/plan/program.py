"""The program of ingest: everything that decides which rows a log holds.

Ingest records the program that wrote the logs, and compares it with its own at each start
(changes.py).  Streams take their names and logs from the record (placement.py).  What a Python
function of ``apply`` or ``flat_map`` does is not compared, only its name.  See docs/operations.md,
"Changing a pipeline".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import msgspec
import polars as pl

from tidemark.core.rows.expression import digest, whole_text
from tidemark.core.rows.row_operators import Apply, Select, WithColumns
from tidemark.core.rows.stateless import StatelessGraph, Step
from tidemark.core.time.duration import duration_text
from tidemark.core.time.event_time import instant_text
from tidemark.core.time.segment import is_operator_source, operator_of
from tidemark.plan.explain import event_time_text, watermark_text
from tidemark.plan.physical import LogPlan, Plan, SourcePlan
from tidemark.serde.versioned import decode_versioned

VERSION = 2


class SourceProgram(msgspec.Struct, frozen=True):
    """How a raw topic is read: the types of its columns, and its settings of time, as text.

    ``topic_id`` and ``shifts`` say which topic it is: the broker's id, and by partition what the
    log adds to its offsets.  ``gone``: a topic of a pattern that does not exist any more.  They are
    no part of the pipeline.
    """

    columns: dict[str, str]
    time: dict[str, str]
    topic_id: str = ""
    shifts: dict[str, int] = msgspec.field(default_factory=dict)
    format: str = "json"
    gone: bool = False


class StreamProgram(msgspec.Struct, frozen=True):
    """How the rows of a stream are made.

    ``columns``: types.  ``rows``: by source, the operators that decide which rows there are.
    ``made``: by source and column, the expression of a column.  A source may be a stage, as
    ``operator_source`` names it.  ``gained``: the columns that earlier rows of the log lack.
    """

    columns: dict[str, str]
    rows: dict[str, list[str]]
    made: dict[str, dict[str, str]]
    gained: list[str] = msgspec.field(default_factory=list)

    @property
    def whole(self) -> frozenset[str]:
        """The columns that all rows of the log have."""
        return frozenset(self.columns).difference(self.gained)

    @property
    def stages(self) -> list[str]:
        """The stages whose results the rows are."""
        return [operator_of(source) for source in self.rows if is_operator_source(source)]


class LogProgram(msgspec.Struct, frozen=True):
    """The partitions, the types of the key, and the streams of a log.

    ``streams``: those that ingest writes; if it writes none (``is_written``), those that ended
    last, all at the same segment.  ``ended``: names of the streams that ended before, while the log
    went on.  The log lacks their later rows, so no stream takes their names again.
    """

    partitions: int
    key: dict[str, str]
    streams: dict[str, StreamProgram]
    ended: list[str] = msgspec.field(default_factory=list)
    is_written: bool = True


class Program(msgspec.Struct, frozen=True):
    """The program of ingest; ``polars``: the version that printed the expressions.

    ``outputs``: by output, the names of its streams; version 1 does not have them.  ``reads``: by
    output, the columns that its results depend on; outputs of rows as they are have none.
    """

    version: int
    polars: str
    sources: dict[str, SourceProgram]
    logs: dict[str, LogProgram]
    outputs: dict[str, list[str]] = msgspec.field(default_factory=dict)
    reads: dict[str, list[str]] = msgspec.field(default_factory=dict)


def program_of(plan: Plan, matched: Iterable[str] = ()) -> Program:
    """Return the program of a plan; ``matched``: raw topics that belong to its patterns now."""
    graphs = {
        **{source.name: source.graph for source in plan.sources},
        **{derived.source: derived.graph for derived in plan.derived},
    }
    traces = {name: _traces(graph) for name, graph in graphs.items()}
    topics = dict.fromkeys([*plan.named_topics, *matched])
    sources = {topic: source_program(plan.source_of(topic)) for topic in topics}
    logs = {log.topic: _log(log, graphs, traces) for log in plan.logs}
    outputs = {each.name: sorted(each.operator.streams) for each in plan.operators}
    reads = {each.name: sorted(each.reads) for each in plan.operators if each.reads is not None}
    return Program(VERSION, pl.__version__, sources, logs, outputs, reads)


def with_topic(
    program: Program, topic: str, topic_id: str, shifts: Mapping[str, int] = MappingProxyType({})
) -> Program:
    """Return a program whose source ``topic`` is the raw topic of an id."""
    source = msgspec.structs.replace(
        program.sources[topic], topic_id=topic_id, shifts=dict(shifts), gone=False
    )
    return msgspec.structs.replace(program, sources={**program.sources, topic: source})


def encode_program(program: Program) -> bytes:
    """Return a program as bytes."""
    return msgspec.json.encode(program)


def decode_program(data: bytes) -> Program:
    """Return the program that ``encode_program`` wrote.

    Raises:
        StateError: the bytes are not a program, or one of a newer version.
    """
    return decode_versioned(data, Program, VERSION, "the recorded program of ingest")


def listed(operators: Sequence[str]) -> str:
    """Return the operators that choose rows as text."""
    return ", ".join(operators) or "all rows"


def _types(columns: Mapping[str, pl.DataType]) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in columns.items()}


def source_program(plan: SourcePlan) -> SourceProgram:
    """Return how the raw topics of a source are read."""
    earliest, future = plan.min_time_ms, plan.max_future_ms
    time = {
        "event time": event_time_text(plan.event_time, whole_text),
        "watermark": watermark_text(plan.watermark, whole_text),
        "min_time": "none" if earliest is None else instant_text(earliest),
        "max_future": "none" if future is None else duration_text(future),
    }
    if plan.loads:
        time["reading before its watermark counts"] = "to the end"
    return SourceProgram(plan.schema.texts(), time, format=str(plan.format))


def _log(
    log: LogPlan, graphs: Mapping[str, StatelessGraph], traces: Mapping[str, "Sequence[_Trace]"]
) -> LogProgram:
    streams = {}
    for stream in log.streams:
        ends = {
            source: traces[source][graph.streams[stream.name].step]
            for source, graph in graphs.items()
            if stream.name in graph.streams
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
        return f" #{digest(computed)}" if computed else ""


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
    rows = " and ".join(listed(each.rows) for each in inputs)
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
    texts = map(whole_text, operator.expressions)
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
    return whole_text(bare) + before.of(bare.meta.root_names())
