"""Placement: which name and which log a stream of a pipeline has where logs exist already.

A stream keeps its name and its log as long as ingest writes it, whatever the order of the outputs.
So a change of one output renames no stream of another.  A new stream goes into a new log, which
ingest builds from the raw topics.  In an existing log, the stream would lack its earlier rows.
See docs/operations.md, "Streams and logs".

Every process places the same plan by the same record.  The placement is the same before and after
ingest has recorded the program, so it does not matter which process starts first.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from tidemark.core.operators.operator import Operator
from tidemark.plan.changes import WITH_OUTPUTS, key_of, source_changes, stream_changes
from tidemark.plan.names import log_topic, next_log_topic
from tidemark.plan.physical import LogPlan, OperatorPlan, Plan, SourcePlan
from tidemark.plan.program import Program, StreamProgram, program_of


class Place(NamedTuple):
    """The name of a stream, and the topic of its log."""

    stream: str
    log: str


Placement = Mapping[str, Place]
"""The place of each stream, by the name that the compiler gives it."""


@dataclass(frozen=True)
class _Stream:
    """A stream of a program; ``outputs``: the outputs on it."""

    place: Place
    key: tuple[tuple[str, str], ...]
    program: StreamProgram
    outputs: frozenset[str]

    def is_alike(self, other: "_Stream") -> bool:
        """Whether both have the same key and raw topics."""
        return self.key == other.key and self.program.rows.keys() == other.program.rows.keys()


_Rule = Callable[[_Stream, _Stream], bool]


def placed(plan: Plan, recorded: Program | None, *, replays: bool = False) -> Plan:
    """Return a plan with the names and logs that its streams have by the recorded program.

    Without a recorded program, the plan stays as it is.  ``replays``: an output keeps its stream in
    the log whatever has changed.
    """
    if recorded is None:
        return plan
    topics = {plan.dead_letters, plan.stats, plan.generations, plan.retried, *plan.named_topics}
    topics.update(topic for each in plan.operators for topic in (*each.topics, each.changelog))
    places = placement(
        plan.pipeline, comparable_program(plan, recorded), recorded, topics, replays=replays
    )
    return replace(
        plan,
        sources=tuple(_placed_source(each, places) for each in plan.sources),
        logs=_placed_logs(plan, places, list(recorded.logs)),
        operators=tuple(_placed_operator(each, places) for each in plan.operators),
    )


def comparable_program(plan: Plan, recorded: Program) -> Program:
    """Return the program of a plan, with the raw topics that the recorded program has."""
    known = [topic for topic in recorded.sources if any(s.reads(topic) for s in plan.sources)]
    return program_of(plan, known)


def placement(
    pipeline: str,
    program: Program,
    recorded: Program,
    topics: Collection[str] = (),
    *,
    replays: bool = False,
) -> Placement:
    """Return the place of each stream of a program.

    Each stream takes the place of at most one recorded stream with the same key and raw topics.

    Args:
        pipeline: its name, for the topics of new logs.
        program: of the pipeline, with the names that the compiler gives.
        recorded: the recorded program.
        topics: other topics of the pipeline.
        replays: an output keeps its stream in the log whatever has changed.
    """
    new = _streams(program)
    free = _streams(recorded)
    places: dict[str, Place] = {}
    for rule in _rules(program, recorded, replays=replays):
        for stream in new:
            if stream.place.stream in places:
                continue
            found = next((old for old in free if stream.is_alike(old) and rule(stream, old)), None)
            if found is not None:
                free.remove(found)
                places[stream.place.stream] = found.place
    places = _together(program, places)
    rest = [stream for stream in new if stream.place.stream not in places]
    return {**places, **_new_places(pipeline, rest, recorded, topics)}


def _together(program: Program, places: Mapping[str, Place]) -> dict[str, Place]:
    """Return the places that stay if all streams of an operator have to be in one log."""
    kept = dict(places)
    while True:
        parted = {
            name
            for names in program.outputs.values()
            if len({kept[name].log if name in kept else "" for name in names}) > 1
            for name in names
        }
        if parted.isdisjoint(kept):
            return kept
        kept = {name: place for name, place in kept.items() if name not in parted}


def _streams(program: Program) -> list[_Stream]:
    """Return the streams of a program; those that are not written now come last."""
    logs = sorted(program.logs.items(), key=lambda each: not each[1].is_written)
    return [
        _Stream(
            Place(name, topic),
            key_of(log),
            stream,
            frozenset(output for output, names in program.outputs.items() if name in names),
        )
        for topic, log in logs
        for name, stream in log.streams.items()
    ]


def _rules(program: Program, recorded: Program, *, replays: bool) -> Sequence[_Rule]:
    """Return the rules by which a stream goes on as a recorded one, the strictest first.

    A stream of the same output may have gained columns.  For another output, the log has to have
    all columns.
    """
    knows_outputs = recorded.version >= WITH_OUTPUTS

    def shares(new: _Stream, old: _Stream) -> bool:
        return not knows_outputs or not new.outputs.isdisjoint(old.outputs)

    def equals(new: _Stream, old: _Stream) -> bool:
        return new.program == old.program

    def fits(new: _Stream, old: _Stream) -> bool:
        return not any(stream_changes("", old.program, new.program))

    def contains(new: _Stream, old: _Stream) -> bool:
        return fits(new, old) and new.program.columns.keys() <= old.program.columns.keys()

    def may_equal(new: _Stream, old: _Stream) -> bool:
        return all(each.expressions for each in stream_changes("", old.program, new.program))

    rules: list[_Rule] = [
        lambda new, old: shares(new, old) and equals(new, old),
        lambda new, old: shares(new, old) and fits(new, old),
        equals,
        contains,
    ]
    if program.polars != recorded.polars:  # another version may print an expression otherwise
        rules.append(lambda new, old: shares(new, old) and may_equal(new, old))
    if replays or source_changes(
        recorded, program
    ):  # ingest refuses it: all keep their names until a reset
        rules.append(shares)
    return rules


def _new_places(
    pipeline: str, streams: Sequence[_Stream], recorded: Program, topics: Collection[str]
) -> dict[str, Place]:
    """Return the places of new streams: names that no stream had, in one new log for each key."""
    names = {name for log in recorded.logs.values() for name in (*log.streams, *log.ended)}
    taken = {*topics, *recorded.logs}
    logs: dict[tuple[tuple[str, str], ...], str] = {}
    places: dict[str, Place] = {}
    for stream in streams:
        if stream.key not in logs:
            logs[stream.key] = _new_log(pipeline, stream.key, recorded, taken)
            taken.add(logs[stream.key])
        name = _new_name(stream.place.stream, names)
        names.add(name)
        places[stream.place.stream] = Place(name, logs[stream.key])
    return places


def _new_log(
    pipeline: str, key: tuple[tuple[str, str], ...], recorded: Program, taken: Collection[str]
) -> str:
    earlier = [topic for topic, log in recorded.logs.items() if key_of(log) == key]
    if earlier:
        return next_log_topic(min(earlier, key=len), taken)
    return log_topic(pipeline, dict(key), taken)


def _new_name(name: str, taken: Collection[str]) -> str:
    base = re.sub(r"#\d+$", "", name)  # no topic has this character
    names = (base if number == 1 else f"{base}#{number}" for number in count(1))
    return next(each for each in names if each not in taken)


def _placed_source(source: SourcePlan, places: Placement) -> SourcePlan:
    graph = source.graph
    streams = {places[name].stream: keyed for name, keyed in graph.streams.items()}
    return replace(source, graph=replace(graph, streams=streams))


def _placed_logs(plan: Plan, places: Placement, known: Sequence[str]) -> tuple[LogPlan, ...]:
    """Return the logs of a plan: those that are ``known`` first, in that order."""
    members: dict[str, LogPlan] = {}
    for log in plan.logs:
        for stream in log.streams:
            name, topic = places[stream.name]
            earlier = members[topic].streams if topic in members else ()
            streams = (*earlier, replace(stream, name=name))
            members[topic] = replace(log, topic=topic, streams=streams)
    order = [topic for topic in known if topic in members]
    return tuple(members[topic] for topic in dict.fromkeys([*order, *members]))


def _placed_operator(plan: OperatorPlan, places: Placement) -> OperatorPlan:
    inputs = tuple(
        replace(each, streams=tuple(places[name].stream for name in each.streams))
        for each in plan.operator.inputs
    )
    (log,) = {places[name].log for name in plan.operator.streams}
    operator: Operator = replace(plan.operator, inputs=inputs)
    signature = dict(plan.state_signature)
    if "stream" in signature:
        signature["stream"] = places[signature["stream"]].stream
    return replace(plan, log=log, operator=operator, state_signature=signature)
