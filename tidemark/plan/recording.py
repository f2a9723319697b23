"""What to record of a pipeline after a deployment, which becomes the next one's past.

changes.py says which changes are refused before.  See docs/operations.md, "Changing a pipeline".
"""

from msgspec.structs import replace

from tidemark.core.time.segment import is_operator_source
from tidemark.plan.program import LogProgram, Program, StreamProgram


def recorded_after(before: Program, after: Program) -> Program:
    """Return what to record when ``after`` goes on where ``before`` was.

    Its sources and logs stay in the record, because their rows stay.  A raw topic stays the one
    that ``before`` knows.
    """
    logs = {topic: _followed(log, after.logs.get(topic)) for topic, log in before.logs.items()} | {
        topic: log for topic, log in after.logs.items() if topic not in before.logs
    }
    sources = {**before.sources, **after.sources}
    for topic, known in before.sources.items():
        if known.topic_id:
            sources[topic] = replace(sources[topic], topic_id=known.topic_id, shifts=known.shifts)
    resting = {name for log in logs.values() if not log.is_written for name in log.streams}
    outputs = {
        output: names for output, names in before.outputs.items() if resting.issuperset(names)
    }
    return replace(after, sources=sources, logs=logs, outputs={**outputs, **after.outputs})


def _followed(old: LogProgram, new: LogProgram | None) -> LogProgram:
    """Return a log as it goes on; ``new``: with the present streams, None if it is not written."""
    if new is None:
        return replace(old, is_written=False)
    ended = [name for name in old.streams if name not in new.streams]
    streams = {
        name: _grown(old.streams[name], stream) if name in old.streams else stream
        for name, stream in new.streams.items()
    }
    return replace(new, streams=streams, ended=[*old.ended, *ended])


def _grown(old: StreamProgram, new: StreamProgram) -> StreamProgram:
    """Return a stream as it goes on, with the columns that earlier rows lack."""
    return replace(new, gained=[name for name in new.columns if name not in old.whole])


def begun_again(before: Program, after: Program) -> Program:
    """Return what to record when ``after`` begins with empty logs; others are not used again."""
    unused = {
        topic: replace(log, streams={}, ended=[*log.ended, *log.streams], is_written=False)
        for topic, log in before.logs.items()
        if topic not in after.logs
    }
    return replace(after, logs={**after.logs, **unused})


def stages_made_again(before: Program, after: Program) -> Program:
    """Return what to record when logs hold the results of the stages of ``after`` from the start.

    Raw topics, and rows that come from them, stay as they were recorded: nobody read them again.
    """
    whole = recorded_after(before, after)
    logs = {
        topic: replace(
            log,
            streams={
                name: _made_of_stages(before.logs.get(topic), name, stream)
                for name, stream in log.streams.items()
            },
        )
        for topic, log in whole.logs.items()
    }
    return replace(whole, sources={**whole.sources, **before.sources}, logs=logs)


def _made_of_stages(old: LogProgram | None, name: str, new: StreamProgram) -> StreamProgram:
    """Return a stream whose rows of stages are all new, and whose other rows are the old ones."""
    known = None if old is None else old.streams.get(name)
    raw = [source for source in new.rows if not is_operator_source(source)]
    if known is None or not raw:
        return replace(new, gained=new.gained if raw else [])
    kept = [source for source in raw if source in known.rows]
    return replace(
        new,
        rows={**new.rows, **{source: known.rows[source] for source in kept}},
        made={**new.made, **{source: known.made[source] for source in kept}},
    )
