"""Placement: which name and which log a stream of a pipeline has where logs exist already.

A stream keeps its name and its log as long as ingest writes it, whatever the order of the outputs.
So a change of one output renames no stream of another.  A new stream goes into a new log, which
ingest builds from the raw topics.  In an existing log, the stream would lack its earlier rows.  So
would an output that depends on a column which the stream did not have from its beginning: it gets a
new stream.  See docs/operations.md, "Streams and logs".

Every process places the same plan by the same record.  The placement is the same before and after
ingest has recorded the program, so it does not matter which process starts first.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from tidemark.core.operators.operator import Operator
from tidemark.core.rows.stateless import StatelessGraph
from tidemark.plan.changes import WITH_OUTPUTS, key_of, source_changes, stream_changes
from tidemark.plan.names import log_topic, next_log_topic
from tidemark.plan.physical import STREAMS, LogPlan, OperatorPlan, Plan, SourcePlan
from tidemark.plan.program import Program, StreamProgram, program_of


class Place(NamedTuple):
    """The name of a stream, and the topic of its log."""

    stream: str
    log: str


Reading = tuple[str, str]
"""The name that the compiler gives a stream, and an output that reads it."""

Placement = Mapping[Reading, Place]
"""Where each output reads its streams: outputs that share a compiled stream may be apart."""


@dataclass(frozen=True)
class _Stream:
    """A stream of a program, recorded or compiled.

    ``outputs``: the outputs on it.  ``reads``: the columns that the results of these depend on.
    ``may_gain``: whether they take columns that come later.
    """

    place: Place
    key: tuple[tuple[str, str], ...]
    program: StreamProgram
    outputs: frozenset[str]
    reads: frozenset[str] = frozenset()
    may_gain: bool = False

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
        derived=tuple(
            replace(each, graph=_placed_graph(each.graph, places)) for each in plan.derived
        ),
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
    """Return where each output of a program reads its streams.

    An output goes on with a recorded stream of the same key and raw topics that has all columns
    which its results depend on.  One recorded stream is the place of one compiled stream only.

    Args:
        pipeline: its name, for the topics of new logs.
        program: of the pipeline, with the names that the compiler gives.
        recorded: the recorded program.
        topics: other topics of the pipeline.
        replays: an output keeps its stream in the log whatever has changed.
    """
    readings = _readings(program)
    known = _streams(recorded)
    users: dict[Place, str] = {}  # the compiled stream at each recorded place
    places: dict[Reading, Place] = {}
    for rule in _rules(program, recorded, replays=replays):
        for reading, stream in readings.items():
            if reading in places:
                continue
            name, _ = reading
            free = (old for old in known if users.get(old.place, name) == name)
            found = next((old for old in free if stream.is_alike(old) and rule(stream, old)), None)
            if found is not None:
                users[found.place] = name
                places[reading] = found.place
    places = _together(program, places)
    rest = {reading: each for reading, each in readings.items() if reading not in places}
    return {**places, **_new_places(pipeline, rest, recorded, topics)}


def _together(program: Program, places: Placement) -> dict[Reading, Place]:
    """Return the places without those of outputs whose streams would be in different logs."""
    logs: dict[str, set[str]] = {
        output: {places[name, output].log if (name, output) in places else "" for name in names}
        for output, names in program.outputs.items()
    }
    return {reading: place for reading, place in places.items() if len(logs[reading[1]]) == 1}


def _readings(program: Program) -> dict[Reading, _Stream]:
    """Return each stream of a compiled program once for each output that reads it."""
    return {
        (stream.place.stream, output): replace(
            stream,
            outputs=frozenset([output]),
            reads=frozenset(program.reads.get(output, columns)).intersection(columns),
            may_gain=output not in program.reads,
        )
        for stream in _streams(program)
        for columns in [stream.program.columns]
        for output in program.outputs
        if output in stream.outputs
    }


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
    """Return the rules by which an output goes on with a recorded stream, the strictest first."""
    knows_outputs = recorded.version >= WITH_OUTPUTS

    def shares(new: _Stream, old: _Stream) -> bool:
        return not knows_outputs or not new.outputs.isdisjoint(old.outputs)

    def equals(new: _Stream, old: _Stream) -> bool:
        return new.program.columns == old.program.columns and fits(new, old)

    def fits(new: _Stream, old: _Stream) -> bool:
        return is_whole(new, old) and not any(stream_changes("", old.program, new.program))

    def is_whole(new: _Stream, old: _Stream) -> bool:
        goes_on = knows_outputs and new.may_gain and shares(new, old)
        return goes_on or new.reads <= old.program.whole

    def may_equal(new: _Stream, old: _Stream) -> bool:
        differences = stream_changes("", old.program, new.program)
        return is_whole(new, old) and all(each.expressions for each in differences)

    rules: list[_Rule] = [
        lambda new, old: shares(new, old) and equals(new, old),
        lambda new, old: shares(new, old) and fits(new, old),
        equals,
        fits,
    ]
    if program.polars != recorded.polars:  # another version may print an expression otherwise
        rules.append(lambda new, old: shares(new, old) and may_equal(new, old))
    if replays or source_changes(
        recorded, program
    ):  # ingest refuses it: all keep their names until a reset
        rules.append(shares)
    return rules


def _new_places(
    pipeline: str,
    readings: Mapping[Reading, _Stream],
    recorded: Program,
    topics: Collection[str],
) -> dict[Reading, Place]:
    """Return the places of new streams: names that no stream had, in one new log for each key."""
    names = {name for log in recorded.logs.values() for name in (*log.streams, *log.ended)}
    taken = {*topics, *recorded.logs}
    logs: dict[tuple[tuple[str, str], ...], str] = {}
    new: dict[str, Place] = {}
    for stream in readings.values():
        if stream.key not in logs:
            logs[stream.key] = _new_log(pipeline, stream.key, recorded, taken)
            taken.add(logs[stream.key])
        if stream.place.stream not in new:
            name = _new_name(stream.place.stream, names)
            names.add(name)
            new[stream.place.stream] = Place(name, logs[stream.key])
    return {reading: new[reading[0]] for reading in readings}


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


def _places_of(places: Placement, stream: str) -> dict[Place, None]:
    """Return the places of a compiled stream, in order."""
    return dict.fromkeys(place for (name, _), place in places.items() if name == stream)


def _placed_source(source: SourcePlan, places: Placement) -> SourcePlan:
    return replace(source, graph=_placed_graph(source.graph, places))


def _placed_graph(graph: StatelessGraph, places: Placement) -> StatelessGraph:
    streams = {
        place.stream: keyed
        for name, keyed in graph.streams.items()
        for place in _places_of(places, name)
    }
    return replace(graph, streams=streams)


def _placed_logs(plan: Plan, places: Placement, known: Sequence[str]) -> tuple[LogPlan, ...]:
    """Return the logs of a plan: those that are ``known`` first, in that order."""
    members: dict[str, LogPlan] = {}
    for log in plan.logs:
        for stream in log.streams:
            for name, topic in _places_of(places, stream.name):
                earlier = members[topic].streams if topic in members else ()
                streams = (*earlier, replace(stream, name=name))
                members[topic] = replace(log, topic=topic, streams=streams)
    order = [topic for topic in known if topic in members]
    return tuple(members[topic] for topic in dict.fromkeys([*order, *members]))


def _placed_operator(plan: OperatorPlan, places: Placement) -> OperatorPlan:
    inputs = tuple(
        replace(each, streams=tuple(places[name, plan.name].stream for name in each.streams))
        for each in plan.operator.inputs
    )
    (log,) = {places[name, plan.name].log for name in plan.operator.streams}
    operator: Operator = replace(plan.operator, inputs=inputs)
    signature = dict(plan.state_signature)
    for name in STREAMS & signature.keys():
        signature[name] = places[signature[name], plan.name].stream
    return replace(plan, log=log, operator=operator, state_signature=signature)
