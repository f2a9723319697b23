"""The newest records of a pipeline's topic, read on demand: panes, late rows and dead letters.

Reading goes backwards in steps that grow, so a long topic costs no more than a short one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from tidemark.core.operators.ports import BY_TIME
from tidemark.core.time.duration import span_text
from tidemark.errors import StateError
from tidemark.monitor.graph import DEAD, kinds_of_topics
from tidemark.monitor.holders import Json
from tidemark.partition import Partition
from tidemark.plan.physical import Plan, PortPlan
from tidemark.runtime.client.consumer import EARLIEST, committed_ends, offsets
from tidemark.runtime.client.range_reader import Range, read
from tidemark.runtime.client.topics import require
from tidemark.runtime.config import Config
from tidemark.serde.avro_results import AvroEncoder
from tidemark.serde.letters import decode_letter

STEPS = (200, 2_000, 20_000)
"""Offsets to read at first, and then while a search has not found enough; of all partitions."""

_CHARACTERS = 2_000
_STEP_BYTES = 32 * 2**20


@dataclass(frozen=True)
class ShownTopic:
    """A topic with records that people read.

    ``kind``: results, late rows or dead letters.  ``text``: returns the value of a record as text.
    """

    topic: str
    kind: str
    text: Callable[[bytes], str]


def shown_topics(plan: Plan) -> dict[str, ShownTopic]:
    """Return the topics of results, late rows and dead letters by name."""
    avro = {
        port.topic: _decoder(port)
        for operator in plan.operators
        for port in operator.published
        if port.format == "avro"
    }
    kinds = kinds_of_topics(plan)
    return {name: ShownTopic(name, kind, avro.get(name, _text)) for name, kind in kinds.items()}


def newest(config: Config, admin: AdminClient, shown: ShownTopic, key: str, limit: int) -> Json:
    """Return the newest committed records, newest first, as JSON values.

    ``key``: a part of the key of the records that are wanted; "" for any.  ``searched``: how many
    records were read.  ``complete``: whether these were all records of the topic.

    Raises:
        ConfigurationError: the topic does not exist.
    """
    count = require(admin, [shown.topic])[shown.topic]
    partitions = [Partition(shown.topic, number) for number in range(count)]
    begins, left = offsets(admin, partitions, EARLIEST), committed_ends(admin, partitions)
    found: list[Json] = []
    searched = size = 0
    for step in STEPS:
        ranges = _last(begins, left, step)
        if not ranges:
            break
        for message in read(config, ranges):
            searched += 1
            size += len(message.value() or b"")
            record = _record(shown, message)
            if key in record["key"]:
                found.append(record)
        left |= {at: first for at, (first, _) in ranges.items()}
        if len(found) >= limit or size > _STEP_BYTES:
            break
    found.sort(key=lambda each: (each["at_ms"], each["partition"], each["offset"]), reverse=True)
    return {
        "topic": shown.topic,
        "kind": shown.kind,
        "records": found[:limit],
        "searched": searched,
        "complete": all(left[at] <= begins[at] for at in partitions),
    }


def _last(
    begins: Mapping[Partition, int], ends: Mapping[Partition, int], count: int
) -> dict[Partition, Range]:
    """Return the ranges of about the last ``count`` offsets of all partitions; no empty ones."""
    each = max(1, count // len(ends))
    return {at: (max(begins[at], end - each), end) for at, end in ends.items() if begins[at] < end}


def _record(shown: ShownTopic, message: Message) -> Json:
    value = message.value()
    record: Json = {
        "partition": message.partition(),
        "offset": message.offset(),
        "at_ms": message.timestamp()[1],
        "key": _text(message.key() or b""),
        "value": "" if value is None else shown.text(value)[:_CHARACTERS],
        "reason": "",
    }
    letter = decode_letter(value) if shown.kind == DEAD else None
    if letter is not None:
        record |= {
            "key": letter.key or "",
            "value": (letter.value or "")[:_CHARACTERS],
            "reason": f"{letter.stage}: {letter.reason}",
            "place": letter.place,
        }
    elif shown.kind == "late" and value is not None:
        record["reason"] = lateness(record["value"])
    return record


class _LateRow(msgspec.Struct, frozen=True):
    reason: str | None = None
    late_by_ms: int | None = None


def lateness(value: str) -> str:
    """Return why a published late row is late, and by how much if it is late by its time."""
    try:
        late = msgspec.json.decode(value, type=_LateRow)
    except msgspec.DecodeError:
        return ""
    if late.late_by_ms is None or late.reason not in (None, BY_TIME):
        return late.reason or ""
    by = f"late by {span_text(late.late_by_ms)}"
    return ", ".join(filter(None, (late.reason, by)))


def _decoder(port: PortPlan) -> Callable[[bytes], str]:
    decode = AvroEncoder(port.topic, port.port).decode

    def decoded(value: bytes) -> str:
        try:
            return msgspec.json.encode(decode(value)).decode()
        except StateError as error:
            return str(error)

    return decoded


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
