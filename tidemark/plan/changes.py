"""The difference between the recorded program and that of a changed pipeline.

docs/operations.md, "Changing a pipeline", says which changes are refused.  The programs compared
have the same names for the same streams (placement.py).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from tidemark.core.time.segment import operator_source
from tidemark.plan.program import (
    VERSION,
    LogProgram,
    Program,
    SourceProgram,
    StreamProgram,
    listed,
)
from tidemark.plan.python_text import in_python

WITH_OUTPUTS = 2
"""The first version of the record that has the streams of each output."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two programs that no log may have.

    ``expressions``: it is in the text of an expression.  ``topics``: no reset helps, because the
    topics of the pipeline would have to be others.  ``outputs``: the change is of the stream of
    these outputs alone; empty if it is of a source or a log.
    """

    what: str
    before: str
    after: str
    expressions: bool = False
    topics: bool = False
    outputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return what changed, from what to what."""
        return f"{self.what} was {in_python(self.before)}, is now {in_python(self.after)}"


def changes(before: Program, after: Program) -> list[Change]:
    """Return the differences that no log may have.

    They are in sources and logs that both programs have.  They are also in outputs of ``before``
    whose stream is new in ``after``, with the same key and the same raw topics.
    """
    found = source_changes(before, after)
    for topic in after.logs.keys() & before.logs.keys():
        old, new = before.logs[topic].partitions, after.logs[topic].partitions
        if old != new:
            what = f"the number of partitions of log {topic}"
            found.append(Change(what, str(old), str(new), topics=True))
    for (old_name, new_name), outputs in _replaced(before, after).items():
        plural = "s" * (len(outputs) > 1)
        where = f"output{plural} {', '.join(outputs)}"
        old_stream, new_stream = stream_of(before, old_name), stream_of(after, new_name)
        alone = () if _is_in_chain(after, new_stream, outputs) else tuple(outputs)
        differences = stream_changes(where, old_stream, new_stream, alone)
        found += _comparable(before, after, differences)
        for output in outputs:
            found += _lacking(output, after, new_stream, old_stream)
    return sorted([*found, *chain_changes(before, after)], key=lambda change: change.what)


def chain_changes(before: Program, after: Program) -> list[Change]:
    """Return a change for each stage of ``before`` that shall hand on another stream as well.

    The logs lack the rows of that stream up to now, so its readers would begin in mid-stream.  A
    stage that was not there hands on all its results once it has caught up.
    """
    logs = (log for log in before.logs.values() if log.is_written)
    known = {name for log in logs for name in log.streams}
    return [
        Change(
            f"what {', '.join(_readers(after, name))} reads of operator {stage}",
            "not handed on",
            listed(stream.rows[operator_source(stage)]),
        )
        for log in after.logs.values()
        for name, stream in log.streams.items()
        if name not in known
        for stage in stream.stages
        if stage in before.outputs and known.issuperset(before.outputs[stage])
    ]


def _readers(program: Program, stream: str) -> list[str]:
    return [output for output, names in program.outputs.items() if stream in names]


def _is_in_chain(program: Program, stream: StreamProgram, outputs: Collection[str]) -> bool:
    """Whether a stream has results of stages, or one of the outputs on it is a stage."""
    streams = (each for log in program.logs.values() for each in log.streams.values())
    stages = {stage for each in streams for stage in each.stages}
    return bool(stream.stages) or not stages.isdisjoint(outputs)


def columns_lacking(recorded: Program, program: Program) -> list[Change]:
    """Return a change for each column that an output reads and its recorded stream lacks.

    ``program``: of a plan that is placed for a replay of the logs.
    """
    return [
        change
        for output, new, old in _going_on(recorded, program)
        for change in _lacking(output, program, new, old)
    ]


def _going_on(
    recorded: Program, program: Program
) -> Iterator[tuple[str, StreamProgram, StreamProgram]]:
    """Yield each output with a stream that goes on: as it is now, and as it was recorded."""
    known = stream_names(recorded)
    for output, names in program.outputs.items():
        for name in names:
            if name in known:
                yield output, stream_of(program, name), stream_of(recorded, name)


def _lacking(
    output: str, program: Program, new: StreamProgram, old: StreamProgram
) -> Iterator[Change]:
    """Yield a change for each column that an output reads and that not all earlier rows have."""
    read = new.columns.keys() & set(program.reads.get(output, ()))
    for name in sorted(read - old.whole):
        what = f"in output {output}, the column {name}"
        yield Change(what, "not in all rows of its log", "read", outputs=(output,))


def source_changes(before: Program, after: Program) -> list[Change]:
    """Return the differences in sources that both programs have."""
    topics = sorted(after.sources.keys() & before.sources.keys())
    return [
        change
        for topic in topics
        for change in _comparable(
            before,
            after,
            _source_changes(topic, before.sources[topic], after.sources[topic]),
        )
    ]


def _comparable(before: Program, after: Program, found: Iterable[Change]) -> list[Change]:
    """Return changes; without those of expressions if two versions of polars printed them."""
    return [each for each in found if before.polars == after.polars or not each.expressions]


def stream_of(program: Program, name: str) -> StreamProgram:
    """Return a stream of a program by its name."""
    return program.logs[log_of(program, name)].streams[name]


def log_of(program: Program, name: str) -> str:
    """Return the topic of the log with a stream that is not one of those that ended before."""
    return next(topic for topic, log in program.logs.items() if name in log.streams)


def stream_names(program: Program) -> set[str]:
    """Return the names of the streams of all logs, without those that ended before."""
    return {name for log in program.logs.values() for name in log.streams}


def _replaced(before: Program, after: Program) -> dict[tuple[str, str], list[str]]:
    """Return the outputs whose stream was replaced, by the names of the old and the new stream."""
    known, present = stream_names(before), stream_names(after)
    # Version 1 does not name the outputs of a stream that is gone: any output may have had it.
    gone = sorted(known - present) if before.version < WITH_OUTPUTS else []
    found: dict[tuple[str, str], list[str]] = {}
    for output, names in after.outputs.items():
        earlier = before.outputs.get(output, gone)
        for new in names:
            if new in known:
                continue
            like = [old for old in earlier if _alike(before, old, after, new)]
            if like:  # the stream of another input goes on, so it is not the one that was replaced
                replaced = min(like, key=lambda old: old in present)
                found.setdefault((replaced, new), []).append(output)
    return found


def _alike(before: Program, old: str, after: Program, new: str) -> bool:
    """Return whether two streams, the old one still written, have the same key and raw topics."""
    old_log, new_log = before.logs[log_of(before, old)], after.logs[log_of(after, new)]
    return (
        old_log.is_written
        and key_of(old_log) == key_of(new_log)
        and old_log.streams[old].rows.keys() == new_log.streams[new].rows.keys()
    )


def key_of(log: LogProgram) -> tuple[tuple[str, str], ...]:
    """Return the key columns of a log with their types; their order counts."""
    return tuple(log.key.items())


def gaining_outputs(recorded: Program, program: Program) -> frozenset[str]:
    """Return the outputs of rows as they are whose streams have gained columns.

    Their earlier rows in the log lack these columns, so the log cannot give all rows again.
    """
    return frozenset(
        output
        for output, new, old in _going_on(recorded, program)
        if output not in program.reads and new.columns.keys() - old.whole
    )


def without_outputs(before: Program, after: Program, outputs: Collection[str]) -> Program:
    """Return ``before`` as if it did not have outputs, which ``after`` has changed."""
    known = stream_names(before)
    earlier = (
        {name: streams for name, streams in after.outputs.items() if known.issuperset(streams)}
        if before.version < WITH_OUTPUTS
        else before.outputs
    )
    kept = {name: streams for name, streams in earlier.items() if name not in outputs}
    return replace(before, version=VERSION, outputs=kept)


def signature_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the differences of two state signatures of an operator as text."""
    return "; ".join(
        f"{name} {before.get(name, 'absent')!r} is now {after.get(name, 'absent')!r}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def _source_changes(topic: str, before: SourceProgram, after: SourceProgram) -> Iterator[Change]:
    if before.format != after.format:
        yield Change(f"the format of source {topic}", before.format, after.format)
    for name, text in after.time.items():
        if before.time.get(name) != text:
            old = before.time.get(name, "none")
            expressions = "col(" in old and "col(" in text
            yield Change(f"the {name} of source {topic}", old, text, expressions)
    yield from _differing(f"in source {topic} the type of", before.columns, after.columns)


def stream_changes(
    where: str, before: StreamProgram, after: StreamProgram, outputs: tuple[str, ...] = ()
) -> Iterator[Change]:
    """Yield the differences in rows and in common columns.

    ``where`` and ``outputs``: of the stream, for the changes.
    """
    yield from _differing(
        f"in {where}, the type of", before.columns, after.columns, outputs=outputs
    )
    for topic in after.rows:
        old, new = before.rows.get(topic, []), after.rows[topic]
        if old != new:
            texts = (listed(old), listed(new))
            what = f"in {where}, the choice of rows"
            yield Change(what, *texts, expressions=True, outputs=outputs)
        yield from _differing(
            f"in {where}, the expression of",
            before.made.get(topic, {}),
            after.made[topic],
            expressions=True,
            outputs=outputs,
        )


def _differing(
    what: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    expressions: bool = False,
    outputs: tuple[str, ...] = (),
) -> Iterator[Change]:
    for name in after:
        if name in before and before[name] != after[name]:
            texts = before[name], after[name]
            yield Change(f"{what} {name}", *texts, expressions=expressions, outputs=outputs)
