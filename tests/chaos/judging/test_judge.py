"""The judge finds nothing where nothing is wrong, and everything that is done to a run here.

A run is made in process: some raw partitions, cut into batches, recorded as the services would.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import polars as pl
import pytest

from tests.chaos import recorded as on_broker
from tests.chaos.joining import Join
from tests.chaos.judging.judge import as_batch, judge
from tests.chaos.judging.results import replayed
from tests.chaos.pipelines import build
from tests.chaos.recorded import RawRecord, Recorded
from tests.chaos.records import Record, draw_records
from tests.oracles.chain import Stage, Windows
from tidemark.core.time.segment import Segment, is_operator_source
from tidemark.ingest.ingest import Ingest, IngestOutput, Progress
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.segments import decode_segment, encode_segment
from tidemark.testing import InProcess, Message

OPERATORS = ("tumbling", "updated", "avro")
PARTITIONS = {"moves": (0, 1), "visits": (0,)}
NOW_MS = 1_790_000_000_000
BATCH = 100

Own = dict[Partition, list[on_broker.Message]]


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
    return _operated(plan, Recorded(raw, {}, own))


def _taken(ingest: Ingest, raw: Mapping[Partition, Sequence[RawRecord]]) -> Iterator[IngestOutput]:
    progress = dict.fromkeys(raw, Progress())
    for begin in range(0, 703, BATCH):
        for at, records in raw.items():
            batch = records[begin : begin + BATCH]
            if batch:
                taken = ingest.take(as_batch(at, batch), progress[at])
                progress[at] = taken.progress
                yield taken


def _operated(plan: Plan, recorded: Recorded) -> Recorded:
    """Return the run with the results that its log gives."""
    own = {at: list(messages) for at, messages in recorded.own.items()}
    for each in plan.operators:
        for number in range(2):
            segments = _segments(recorded, Partition(each.log, number))
            for topic, by_segment in replayed(each, segments).items():
                own[Partition(topic, number)] = [*chain.from_iterable(by_segment)]
    return replace(recorded, own=own)


def _segments(recorded: Recorded, at: Partition) -> list[Segment]:
    return [decode_segment(value or b"") for _, value in recorded.own[at]]


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
        for messages in replayed(each, _segments(whole, Partition(each.log, 0)))[at.topic]
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
    assert judge(plan, sent, _operated(plan, replace(recorded, own=own))).differences


def test_it_finds_state_that_was_lost(plan, sent, recorded):
    """As after a restore that left out the end: the operator starts anew in the middle."""
    (each,) = (each for each in plan.operators if each.operator.name == "tumbling")
    segments = _segments(recorded, LOG)
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


CHAIN = (
    Stage(Windows("hopping", 4_000, 4_000), 3_000, 1, "same"),
    Stage(Windows("session", 3_000), 0, 1, "value"),
    Stage(Windows("hopping", 12_000, 6_000), 0, 1, "same"),
)
Run = tuple[Plan, list[Record], Recorded]


@pytest.fixture(scope="module")
def chained() -> Run:
    """Return a run of a chain of three stages."""
    return _in_process("chained", chains=[CHAIN])


def _in_process(name: str, **options: Any) -> Run:
    """Return a run in one process, whose logs are not cut as on a broker."""
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
    return run.plan, sent, _operated(run.plan, Recorded(raw, {}, own))


def test_a_chain_without_a_fault_is_found_right(chained):
    plan, sent, recorded = chained
    verdict = judge(plan, sent, recorded, [CHAIN])
    assert verdict.differences == []
    assert verdict.figures["handed on"] > 50


def test_it_finds_results_of_a_chain_that_plain_python_does_not_give(chained):
    plan, sent, recorded = chained
    other = [*CHAIN[:-1], CHAIN[-1]._replace(windows=Windows("hopping", 12_000, 12_000))]
    (difference,) = judge(plan, sent, recorded, [other]).differences
    assert difference.startswith("chained.chain-0: ")


def _at_a_row(segments: list[Segment]) -> int:
    return next(n for n, each in enumerate(segments) if n > 10 and _is_derived(each, rows=True))


def _at_a_mark(segments: list[Segment]) -> int:
    return next(n for n, each in enumerate(segments) if n > 10 and _is_derived(each, rows=False))


def _is_derived(segment: Segment, *, rows: bool) -> bool:
    sources = [mark.source for mark in segment.sources]
    return all(map(is_operator_source, sources)) and bool(segment.height) == rows


def _without_rows(segments: list[Segment]) -> list[Segment]:
    at = _at_a_row(segments)
    return segments[:at] + segments[at + 1 :]


def _with_rows_twice(segments: list[Segment]) -> list[Segment]:
    at = _at_a_row(segments)
    return segments[: at + 1] + segments[at:]


def _with_rows_behind_all(segments: list[Segment]) -> list[Segment]:
    return [*_without_rows(segments), segments[_at_a_row(segments)]]


def _without_the_last_mark(segments: list[Segment]) -> list[Segment]:
    at = max(n for n, each in enumerate(segments) if _is_derived(each, rows=False))
    return segments[:at] + segments[at + 1 :]


def _with_a_mark_too_far(segments: list[Segment]) -> list[Segment]:
    at = _at_a_mark(segments)
    (mark,) = segments[at].sources
    far = replace(mark, watermark_ms=mark.watermark_ms + 1)
    return [*segments[:at], replace(segments[at], sources=(far,)), *segments[at + 1 :]]


@pytest.mark.parametrize(
    "edit",
    [
        _without_rows,
        _with_rows_twice,
        _with_rows_behind_all,
        _without_the_last_mark,
        _with_a_mark_too_far,
    ],
)
def test_it_finds_a_wrong_part_of_a_chain(chained, edit):
    plan, sent, recorded = chained
    at = Partition("chained.by-key.log", 1)
    values = [(None, encode_segment(each)) for each in edit(_segments(recorded, at))]
    edited = _operated(plan, replace(recorded, own={**recorded.own, at: values}))
    assert judge(plan, sent, edited, [CHAIN]).differences


JOIN = Join("full", -200, 100, 3_000, True, [Stage(Windows("hopping", 4_000, 4_000))])


@pytest.fixture(scope="module")
def joined() -> Run:
    """Return a run of a join and of windows over its rows."""
    return _in_process("joined", joins=[JOIN])


def test_a_join_without_a_fault_is_found_right(joined):
    plan, sent, recorded = joined
    verdict = judge(plan, sent, recorded, made_joins=[JOIN])
    assert verdict.differences == []
    assert verdict.figures["handed on"] > 50
    assert recorded.values("joined.join-0.late-left")


@pytest.mark.parametrize(
    ("other", "topics"),
    [
        (JOIN._replace(how="left"), {"joined.join-0", "joined.join-0-sums"}),
        (JOIN._replace(upper_ms=90), {"joined.join-0", "joined.join-0-sums"}),
        (JOIN._replace(lateness_ms=0), {"joined.join-0", "joined.join-0-sums", "late rows"}),
        (JOIN._replace(stages=CHAIN), {"joined.join-0-sums"}),
    ],
)
def test_it_finds_results_of_a_join_that_plain_python_does_not_give(joined, other, topics):
    plan, sent, recorded = joined
    differences = judge(plan, sent, recorded, made_joins=[other]).differences
    assert {each.partition(":")[0].removesuffix(" of join-0") for each in differences} == topics
