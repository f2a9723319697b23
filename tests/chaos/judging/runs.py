"""What the tests of the judge share: a recorded run with the results that its logs give."""

import random
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Any

from tests.chaos import recorded as on_broker
from tests.chaos.judging.results import replayed
from tests.chaos.pipelines import build
from tests.chaos.recorded import RawRecord, Recorded
from tests.chaos.records import Record, draw_records
from tidemark.core.time.segment import Segment
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.segments import decode_segment, encode_segment
from tidemark.testing import InProcess, Message

NOW_MS = 1_790_000_000_000
BATCH = 100

Own = dict[Partition, list[on_broker.Message]]
Run = tuple[Plan, list[Record], Recorded]


def operated(plan: Plan, recorded: Recorded) -> Recorded:
    """Return the run with the results that its log gives."""
    own = {at: list(messages) for at, messages in recorded.own.items()}
    for each in plan.operators:
        for number in range(2):
            segments = segments_of(recorded, Partition(each.log, number))
            for topic, by_segment in replayed(each, segments).items():
                own[Partition(topic, number)] = [*chain.from_iterable(by_segment)]
    return replace(recorded, own=own)


def segments_of(recorded: Recorded, at: Partition) -> list[Segment]:
    """Return the segments of a log."""
    return [decode_segment(value or b"") for _, value in recorded.own[at]]


def run_in_process(name: str, **options: Any) -> Run:
    """Return a run in one process; a broker would cut its logs in other places."""
    sent = draw_records(random.Random(4), 300, {"moves": (0, 1), "visits": (0, 1)})
    done: Counter[Partition] = Counter()
    run = InProcess(build(name, (), **options), raw_partitions=2)
    raw: dict[Partition, list[RawRecord]] = {}
    for begin in range(0, len(sent), BATCH):
        for record in sent[begin : begin + BATCH]:
            at = Partition(f"{name}-{record.topic}", record.partition)
            listed = raw.setdefault(at, [])
            listed.append(RawRecord(len(listed), NOW_MS, None, record.value))
        for at, listed in raw.items():
            messages = [Message(each.value, timestamp_ms=NOW_MS) for each in listed[done[at] :]]
            run.send(at.topic, *messages, partition=at.number)
            done[at] = len(listed)
    own: Own = {
        Partition(*at): [(None, encode_segment(segment)) for segment in segments]
        for at, segments in run._log.items()
    }
    letters = zip(*encode_dead_letters(run._letters), strict=True)
    own[Partition(run.plan.dead_letters, 0)] = list(letters)
    return run.plan, sent, operated(run.plan, Recorded(raw, {}, own))
