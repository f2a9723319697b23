"""The recorded program of ingest: what wrote the logs, compared with the pipeline at each start.

The record is in the topic of generations.  The first commit after a start writes it, in the same
transaction as the segments.  See docs/operations.md, "Changing a pipeline".
"""

import logging
from collections.abc import Iterator, Sequence

from confluent_kafka.admin import AdminClient

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.program import (
    Change,
    Program,
    changes,
    decode_program,
    encode_program,
    joined,
    new_streams,
    program_of,
    with_topic,
)
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.producer import Record
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import partition_counts, require_raw, topic_ids
from tidemark.runtime.config import Config

_KEY = b"ingest"  # of the record in the topic of generations

_log = logging.getLogger("tidemark")


def checked_program(config: Config, admin: AdminClient, plan: Plan) -> Record | None:
    """Return the record that the next commit must write; None if the program is the recorded one.

    Raises:
        StateError: the logs hold rows of another program, and no result of both would be right.
    """
    program = _identified(admin, plan)
    recorded = recorded_program(config, admin, plan.generations)
    if recorded is None:
        _log.info("the program of ingest is recorded with the next commit")
        return record_of_program(program)
    found = changes(recorded, program)
    if found:
        raise StateError(_refused(found, config.pipeline or "PIPELINE"))
    for line in _news(recorded, program, config.pipeline or "PIPELINE"):
        _log.warning(line)
    whole = joined(recorded, program)
    return None if whole == recorded else record_of_program(whole)


def program_record(admin: AdminClient, plan: Plan) -> Record:
    """Return the record of a plan whose logs begin now, without what earlier plans wrote."""
    return record_of_program(_identified(admin, plan))


def record_of_program(program: Program) -> Record:
    """Return a program as a record of the topic of generations."""
    return _KEY, encode_program(program)


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
    newest: bytes | None = None
    for message in read(config, {at: (begins[at], ends[at])}):
        if message.key() == _KEY:
            newest = message.value()
    return None if newest is None else decode_program(newest)


def _refused(found: Sequence[Change], pipeline: str) -> str:
    shown = "; ".join(map(str, found[:3]))
    more = f"; and {len(found) - 3} more changes" if len(found) > 3 else ""
    remedy = f"'tidemark reset {pipeline}' starts the pipeline afresh from its raw topics"
    if any(each.topics for each in found):
        remedy = "set partitions= back, or give the pipeline another name, which has its own topics"
    return (
        f"the pipeline has changed: {shown}{more}. Nothing was written, so the earlier pipeline "
        "can go on. The logs hold rows of the earlier pipeline, which fit no result of this one: "
        f"{remedy}"
    )


def deployment_lines(config: Config, admin: AdminClient, plan: Plan) -> list[str]:
    """Return what the next start of ingest would do with the logs, for ``tidemark plan``."""
    program = program_of(plan)
    recorded = recorded_program(config, admin, plan.generations)
    if recorded is None:
        return ["no program is recorded: the first start of ingest records it"]
    found = changes(recorded, program)
    if found:
        return [_refused(found, config.pipeline or "PIPELINE")]
    news = list(_news(recorded, program, config.pipeline or "PIPELINE"))
    return news or ["ingest goes on with the logs that are there"]


def _news(recorded: Program, program: Program, pipeline: str) -> Iterator[str]:
    """Yield what is new in the logs and worth a word."""
    for topic in program.logs:
        if topic not in recorded.logs:
            yield f"log {topic} is new: ingest builds it from the raw topics, the others go on"
    for topic, names in new_streams(recorded, program).items():
        yield (
            f"log {topic} gets new streams: {', '.join(names)}. Its segments so far have no rows "
            "of them, so their first windows lack the rows before the start; "
            f"'tidemark reset {pipeline}' builds everything from the raw topics"
        )
    if recorded.polars != program.polars:
        yield (
            f"polars {recorded.polars} wrote the logs and polars {program.polars} goes on: "
            "expressions are not compared"
        )
