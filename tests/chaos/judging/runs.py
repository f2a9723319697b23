"""What the tests of the judge share: a recorded run with the results that its logs give."""

from dataclasses import replace
from itertools import chain

from tests.chaos import recorded as on_broker
from tests.chaos.judging.results import replayed
from tests.chaos.recorded import Recorded
from tidemark.core.time.segment import Segment
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.serde.segments import decode_segment

NOW_MS = 1_790_000_000_000
BATCH = 100

Own = dict[Partition, list[on_broker.Message]]


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
