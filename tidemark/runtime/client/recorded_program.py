"""The recorded program of ingest: what wrote the logs, compared with the pipeline at each start.

The record is in the topic of generations.  The first commit after a start writes it, in the same
transaction as the segments.  See docs/operations.md, "Changing a pipeline".
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec
from confluent_kafka.admin import AdminClient

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.changes import (
    Change,
    chain_changes,
    changes,
    columns_lacking,
    gaining_outputs,
    without_outputs,
)
from tidemark.plan.physical import Plan
from tidemark.plan.placement import comparable_program, placed
from tidemark.plan.program import (
    Program,
    SourceProgram,
    decode_program,
    encode_program,
    program_of,
    with_topic,
)
from tidemark.plan.recording import begun_again, recorded_after, stages_made_again
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import partition_counts, require_raw, topic_ids
from tidemark.runtime.config import Config
from tidemark.runtime.faults import as_typed

_KEY = b"ingest"  # of the record in the topic of generations
_TOPIC = b"ingest:"  # and of the records of topics that came or went later; no name has a colon

_log = logging.getLogger("tidemark")

_NO_RECORD = (
    "ingest has read raw topics before, but topic {} does not have its program: the topic was "
    "deleted, or an earlier version wrote the logs. Streams have the names of a new deployment. If "
    "outputs were added, removed or changed since the first one, the names may be wrong: 'tidemark "
    "reset PIPELINE' starts the pipeline afresh from its raw topics"
)


def placed_plan(config: Config, admin: AdminClient, plan: Plan) -> Plan:
    """Return a plan with the names and logs that its streams have on the broker.

    Every process that works with the logs of a broker uses this plan.
    """
    return placed(plan, recorded_program(config, admin, plan.generations))


def replayed_plan(
    config: Config,
    admin: AdminClient,
    plan: Plan,
    *,
    from_raw: bool,
    operators: Collection[str] = (),
) -> Plan:
    """Return the plan of a replay: an output whose stream has changed has its earlier log.

    ``operators``: those that the replay is of; empty: all.

    Raises:
        StateError: a replay of the logs would read a column that their earlier rows lack.
    """
    recorded = recorded_program(config, admin, plan.generations)
    plan = placed(plan, recorded, replays=True)
    if recorded is not None and not from_raw:
        lacking = columns_lacking(recorded, comparable_program(plan, recorded))
        found = [each for each in lacking if not operators or {*each.outputs} & {*operators}]
        if found:
            raise StateError(
                f"{'; '.join(map(str, found))}: replay the raw topics instead, with --from raw"
            )
    return plan


def warn_unless_recorded(config: Config, admin: AdminClient, topic: str) -> None:
    """Warn if ingest has read records before and no program is recorded, not even meanwhile.

    A process that starts with a new pipeline records the program with its first records.
    """
    if recorded_program(config, admin, topic) is None:
        where = config.pipeline, "ingest", config.bootstrap_servers
        _log.warning("%s", as_typed(_NO_RECORD.format(topic), *where))


def checked_program(admin: AdminClient, plan: Plan, recorded: Program | None) -> Record | None:
    """Return the record that the next commit must write; None if the program is the recorded one.

    ``plan``: the placed plan.

    Raises:
        StateError: the logs hold rows of another program, and no result of both would be right.
    """
    program = _identified(admin, plan)
    if recorded is None:
        _log.info("the program of ingest is recorded with the next commit")
        return record_of_program(program)
    found = changes(recorded, program)
    if found:
        raise StateError(refusal(found))
    for line in news(recorded, program):
        _log.warning(line)
    whole = recorded_after(recorded, program)
    return None if whole == recorded else record_of_program(whole)


def require_same_chains(plan: Plan, recorded: Program | None) -> None:
    """Require that stages hand on no more streams than before.

    ``plan``: the placed plan.

    Raises:
        StateError: the logs lack earlier rows of a stream, which only a reset adds.
    """
    found = [] if recorded is None else chain_changes(recorded, comparable_program(plan, recorded))
    if found:
        raise StateError(refusal(found))


def replayed_program(config: Config, admin: AdminClient, plan: Plan) -> Record:
    """Return the record of a plan that goes on after a replay from the raw topics."""
    program = _identified(admin, plan)
    recorded = recorded_program(config, admin, plan.generations)
    return record_of_program(program if recorded is None else recorded_after(recorded, program))


def restaged_program(config: Config, admin: AdminClient, plan: Plan) -> Record:
    """Return the record of a plan whose stages ran again over all that the logs hold."""
    program = _identified(admin, plan)
    recorded = recorded_program(config, admin, plan.generations)
    return record_of_program(program if recorded is None else stages_made_again(recorded, program))


def begun_program(config: Config, admin: AdminClient, plan: Plan) -> Record:
    """Return the record of a plan whose logs begin again, empty."""
    program = _identified(admin, plan)
    recorded = recorded_program(config, admin, plan.generations)
    return record_of_program(program if recorded is None else begun_again(recorded, program))


def recorded_logs(config: Config, admin: AdminClient, plan: Plan) -> list[str]:
    """Return the topics of all logs of a pipeline: those of a plan, and those of earlier ones."""
    recorded = recorded_program(config, admin, plan.generations)
    known = [] if recorded is None else list(recorded.logs)
    there = partition_counts(admin)
    wanted = [log.topic for log in plan.logs]
    return list(dict.fromkeys([*wanted, *(topic for topic in known if topic in there)]))


class AcceptedChanges(NamedTuple):
    """Outputs with a change that ingest refuses, and a record of the program without them.

    With that record, ingest builds their streams in new logs.
    """

    outputs: Sequence[str]
    record: Record


def accepted_changes(
    plan: Plan, recorded: Program | None, outputs: Collection[str]
) -> AcceptedChanges | None:
    """Return those of some outputs that begin in a new log, or None.

    Ingest refuses their change, or their log lacks columns in its earlier rows.  ``plan``: the
    placed plan.
    """
    if recorded is None:
        return None
    program = comparable_program(plan, recorded)
    named = {output for change in changes(recorded, program) for output in change.outputs}
    changed = sorted((named | gaining_outputs(recorded, program)).intersection(outputs))
    if not changed:
        return None
    return AcceptedChanges(changed, record_of_program(without_outputs(recorded, program, changed)))


def record_of_program(program: Program) -> Record:
    """Return a program as a record of the topic of generations."""
    return _KEY, encode_program(program)


def record_of_topic(topic: str, source: SourceProgram) -> Record:
    """Return how a raw topic is read as a record of the topic of generations.

    A record per topic: processes that find topics at the same time do not write over each other.
    """
    return _TOPIC + topic.encode(), msgspec.json.encode(source)


def _identified(admin: AdminClient, plan: Plan) -> Program:
    """Return the program of a plan, with the ids of its raw topics, which must exist."""
    program = program_of(plan, require_raw(admin, plan))
    for topic, topic_id in topic_ids(admin, program.sources).items():
        program = with_topic(program, topic, topic_id)
    return program


def recorded_program(config: Config, admin: AdminClient, topic: str) -> Program | None:
    """Return the newest recorded program, None if no program is recorded."""
    if topic not in partition_counts(admin):
        return None
    at = Partition(topic, 0)
    begins, ends = offsets(admin, [at], EARLIEST), offsets(admin, [at], LATEST)
    program: Program | None = None
    sources: dict[str, SourceProgram] = {}
    for message in read(config, {at: (begins[at], ends[at])}):
        key, value = message.key() or b"", message.value() or b""
        if key == _KEY:
            program = decode_program(value)
            sources |= program.sources
        elif key.startswith(_TOPIC):
            sources[key.removeprefix(_TOPIC).decode()] = _source(key, value)
    return None if program is None else msgspec.structs.replace(program, sources=sources)


def _source(key: bytes, value: bytes) -> SourceProgram:
    try:
        return msgspec.json.decode(value, type=SourceProgram)
    except msgspec.DecodeError as error:
        raise StateError(f"the record {key!r} cannot be read: {error}") from None


def refusal(found: Sequence[Change]) -> str:
    """Return why ingest refuses a program, and the remedy; several changes have a line each."""
    kept = f"Nothing was written, so the earlier pipeline can go on. {_remedy(found)}"
    if len(found) == 1:
        return f"the pipeline has changed: {found[0]}. {kept}"
    return "\n  ".join([f"the pipeline has {len(found)} changes:", *map(str, found), kept])


def _remedy(found: Sequence[Change]) -> str:
    outputs = dict.fromkeys(output for each in found for output in each.outputs)
    if all(each.outputs for each in found):
        options = " ".join(f"--operator {output}" for output in outputs)
        return (
            f"'tidemark reset PIPELINE {options}' starts the changed outputs afresh: ingest "
            "builds their rows from the raw topics, and the other outputs go on"
        )
    why = "The logs hold rows of the earlier pipeline, which fit no result of this one"
    if any(each.topics for each in found):
        return (
            f"{why}: set partitions= back, or give the pipeline another name, which has its own "
            "topics"
        )
    return f"{why}: 'tidemark reset PIPELINE' starts the pipeline afresh from its raw topics"


def news(recorded: Program, program: Program) -> Iterator[str]:
    """Yield a line for each new log, and for another version of polars."""
    for topic, log in program.logs.items():
        if topic not in recorded.logs:
            outputs = [
                output
                for output, streams in program.outputs.items()
                if not log.streams.keys().isdisjoint(streams)
            ]
            stages = {stage for stream in log.streams.values() for stage in stream.stages}
            rows = f"operator {', '.join(sorted(stages))}" if stages else "the raw topics"
            who = "its service" if stages else "ingest"
            yield (
                f"log {topic} is new: {who} builds it from {rows} for {', '.join(outputs)}, the "
                "others go on"
            )
    if recorded.polars != program.polars:
        yield (
            f"polars {recorded.polars} wrote the logs and polars {program.polars} goes on: "
            "expressions are not compared"
        )
