"""The judge finds nothing where nothing is wrong, and everything that is done to a run here.

A run is made in process: some raw partitions, cut into batches, recorded as the services would.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import polars as pl
import pytest

from tests.chaos import recorded as on_broker
from tests.chaos.judging.judge import as_batch, judge
from tests.chaos.judging.results import replayed
from tests.chaos.judging.runs import BATCH, NOW_MS, Own, operated, segments_of
from tests.chaos.pipelines import build
from tests.chaos.recorded import RawRecord, Recorded
from tests.chaos.records import Record, draw_records
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.segments import decode_segment, encode_segment

OPERATORS = ("tumbling", "updated", "avro")
PARTITIONS = {"moves": (0, 1), "visits": (0,)}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return build("judged", OPERATORS).plan()


@pytest.fixture(scope="module")
def sent() -> list[Record]:
    return draw_records(random.Random(3), 700, PARTITIONS)


@pytest.fixture(scope="module")
def recorded(plan: Plan, sent: list[Record]) -> Recorded:
    return run_of(plan, sent)


def run_of(plan: Plan, sent: list[Record]) -> Recorded:
    raw: dict[Partition, list[RawRecord]] = {}
    for record in sent:
        listed = raw.setdefault(Partition(f"judged-{record.topic}", record.partition), [])
        listed.append(RawRecord(len(listed), NOW_MS, None, record.value))
    own: Own = {Partition(plan.dead_letters, 0): []}
    ingest, builder = Ingest(plan), SegmentBuilder(0)
    for taken in _taken(ingest, raw):
        own[Partition(plan.dead_letters, 0)] += zip(
            *encode_dead_letters(taken.dead_letters), strict=True
        )
        builder.add(taken)
        for log in plan.logs:
            built = builder.build(log, NOW_MS, Counter(at.topic for at in raw))
            for number, segments in enumerate(built):
                values = [(None, encode_segment(segment)) for segment in segments]
                own.setdefault(Partition(log.topic, number), []).extend(values)
        builder.clear()
    return operated(plan, Recorded(raw, {}, own))


def _taken(ingest: Ingest, raw: Mapping[Partition, Sequence[RawRecord]]) -> Iterator[IngestOutput]:
    progress = dict.fromkeys(raw, Progress())
    for begin in range(0, 703, BATCH):
        for at, records in raw.items():
            batch = records[begin : begin + BATCH]
            if batch:
                taken = ingest.take(as_batch(at, batch), progress[at])
                progress[at] = taken.progress
                yield taken


def test_a_run_without_a_fault_is_found_right(plan, sent, recorded):
    verdict = judge(plan, sent, recorded)
    assert verdict.differences == []
    assert verdict.figures["records"] == len(sent)
    assert verdict.figures["by raw records"] == 2


RESULTS = Partition("judged.updated", 0)
ON_TIME = Partition("judged.tumbling", 0)
LATE = Partition("judged.tumbling.late", 0)
LETTERS = Partition("judged.dead-letters", 0)
LOG = Partition("judged.by-who.log", 1)


def _lost(messages: list[on_broker.Message]) -> list[on_broker.Message]:
    return messages[:7] + messages[8:]


def _doubled(messages: list[on_broker.Message]) -> list[on_broker.Message]:
    return messages[:7] + messages[6:]


def _swapped(messages: list[on_broker.Message]) -> list[on_broker.Message]:
    return [messages[1], messages[0], *messages[2:]]


def _changed(messages: list[on_broker.Message]) -> list[on_broker.Message]:
    key, value = messages[0]
    return [(key, (value or b"").replace(b":1", b":2", 1)), *messages[1:]]


@pytest.mark.parametrize("at", [RESULTS, LATE, LETTERS], ids=["result", "late row", "dead letter"])
@pytest.mark.parametrize("mutate", [_lost, _doubled, _changed])
def test_it_finds_one_message(plan, sent, recorded, at, mutate):
    assert _judged(plan, sent, recorded, at, mutate)


@pytest.mark.parametrize("at", [ON_TIME, LATE], ids=["results", "late rows"])
def test_it_finds_two_in_the_wrong_order(plan, sent, recorded, at):
    assert _judged(plan, sent, recorded, at, _swapped)


def test_portions_may_order_the_messages_of_a_segment_otherwise():
    """Two services cut a segment in other portions; the messages of a key keep their order."""
    sent = draw_records(random.Random(4), 700, PARTITIONS)
    plan = build("judged", ["early"]).plan()
    whole = run_of(plan, sent)
    at = Partition("judged.early", 0)
    (each,) = plan.operators
    (first, *_) = (
        messages
        for messages in replayed(each, segments_of(whole, Partition(each.log, 0)))[at.topic]
        if len({key for key, _ in messages}) > 1
    )
    low = whole.own[at].index(first[0])

    def with_order(messages: list[on_broker.Message]) -> Recorded:
        listed = list(whole.own[at])
        listed[low : low + len(first)] = messages
        assert listed != whole.own[at]
        return replace(whole, own={**whole.own, at: listed})

    by_key = sorted(first, key=lambda message: message[0] or b"", reverse=True)
    assert judge(plan, sent, with_order(by_key)).differences == []
    assert judge(plan, sent, with_order(first[::-1])).differences


def _judged(
    plan: Plan,
    sent: list[Record],
    recorded: Recorded,
    at: Partition,
    mutate: Callable[[list[on_broker.Message]], list[on_broker.Message]],
) -> list[str]:
    own = {**recorded.own, at: mutate(list(recorded.own[at]))}
    assert own[at] != recorded.own[at]
    return judge(plan, sent, replace(recorded, own=own)).differences


def _without_a_row(messages: list[on_broker.Message]) -> list[on_broker.Message]:
    return _edited(messages, lambda frame: frame.slice(1))


def _with_a_row_twice(messages: list[on_broker.Message]) -> list[on_broker.Message]:
    return _edited(messages, lambda frame: pl.concat([frame.head(1), frame]))


def _with_another_watermark(messages: list[on_broker.Message]) -> list[on_broker.Message]:
    return _edited(messages, lambda frame: frame.with_columns(pl.col("@watermark") + 1))


def _edited(
    messages: list[on_broker.Message], edit: Callable[[pl.DataFrame], pl.DataFrame]
) -> list[on_broker.Message]:
    segment = decode_segment(messages[3][1] or b"")
    streams = {name: edit(frame) for name, frame in segment.streams.items()}
    value = encode_segment(replace(segment, streams=streams))
    return [*messages[:3], (None, value), *messages[4:]]


@pytest.mark.parametrize(
    "mutate", [_lost, _doubled, _without_a_row, _with_a_row_twice, _with_another_watermark]
)
def test_it_finds_a_wrong_log_with_the_results_that_follow_from_it(plan, sent, recorded, mutate):
    own = {**recorded.own, LOG: mutate(list(recorded.own[LOG]))}
    assert judge(plan, sent, operated(plan, replace(recorded, own=own))).differences


def test_it_finds_state_that_was_lost(plan, sent, recorded):
    """As after a restore that left out the end: the operator starts anew in the middle."""
    (each,) = (each for each in plan.operators if each.operator.name == "tumbling")
    segments = segments_of(recorded, LOG)
    middle = len(segments) // 2
    before, after = replayed(each, segments[:middle]), replayed(each, segments[middle:])
    restarted = {
        Partition(topic, LOG.number): [*chain(*before[topic], *after[topic])]
        for topic in each.topics
    }
    own = {**recorded.own, **restarted}
    assert judge(plan, sent, replace(recorded, own=own)).differences


def test_a_feed_that_failed_is_no_verdict_on_the_services(plan, sent, recorded):
    (first, *_) = recorded.raw
    raw = {**recorded.raw, first: recorded.raw[first][:-1]}
    (difference,) = judge(plan, sent, replace(recorded, raw=raw)).differences
    assert "the feed failed" in difference
