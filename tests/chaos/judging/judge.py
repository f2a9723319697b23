"""Whether what a run left behind is what must be there: everything that differs, in words.

1. The raw topics hold what was sent, or the run says nothing.
2. The log: marks of each source tile its partition; the rows are those that ingest makes of the raw
   records in one piece, each once, with the same watermarks; so are the dead letters.
3. Promise 1: results and late rows are, record by record and partition by partition, what the
   operators make of the recorded log in one process: results.py.
4. Promise 2: where no source with records fell idle, final panes and late rows are what they make
   of the raw records in one piece.
5. No pane is there twice, and the counts add up.
6. Chains: chains.py.
7. Joins and patterns, where no source with records fell idle: joins.py, patterns.py.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from tests.chaos.judging.chains import Log, Stages, chains
from tests.chaos.judging.joins import judged_joins
from tests.chaos.judging.patterns import pattern_differences
from tests.chaos.judging.results import first_difference, results
from tests.chaos.judging.rows import rows_published
from tests.chaos.pipelines import END, FROM_RAW
from tests.chaos.recorded import Message, RawRecord, Recorded
from tests.chaos.records import Record
from tests.oracles.chain import Result
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import (
    NEVER_MS,
    OFFSET,
    SOURCE,
    SUB_ROW,
    Segment,
    SourceMark,
    is_operator_source,
)
from tidemark.ingest.ingest import Counts, Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.local.run import OperatorResults
from tidemark.partition import Partition
from tidemark.plan.physical import LogPlan, OperatorPlan, Plan
from tidemark.runtime.keyed.encoders import encoder_of
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.segments import decode_segment
from tidemark.testing.in_process import decoded

Pane = dict[str, Any]


@dataclass
class Verdict:
    """What differs; ``figures``: what was looked at."""

    differences: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """What ingest makes of all raw records in one piece."""

    logs: Mapping[str, Log]
    letters: Counter[Message]
    counts: Counts


def judge(
    plan: Plan,
    sent: Sequence[Record],
    recorded: Recorded,
    made_chains: Sequence[Any] = (),
    made_joins: Sequence[Any] = (),
    made_patterns: Sequence[Any] = (),
) -> Verdict:
    """Compare a run with what must come of its records.

    ``made_chains``, ``made_joins``, ``made_patterns``: as ``build`` takes them.
    """
    verdict = Verdict()
    verdict.differences += _raw(plan, sent, recorded)
    if verdict.differences:
        return verdict
    logs = {log.topic: _log(recorded, log) for log in plan.logs}
    wanted = ingested(plan, recorded.raw, _loaded(plan, logs))
    verdict.differences += _fates(sent, wanted.counts)
    verdict.differences += _letters(recorded, plan, wanted)
    stages = Stages(plan, logs)
    for log in plan.logs:
        got, handed_on = logs[log.topic], stages.rows[log.topic]
        rows = {n: [*each, *handed_on[n]] for n, each in wanted.logs[log.topic].items()}
        verdict.differences += _marks(plan, log, got, recorded)
        verdict.differences += _rows(log, got, rows)
    verdict.differences += stages.differences(recorded)
    idle = _fell_idle(logs, recorded)
    for each in plan.operators:
        verdict.differences += results(each, logs[each.log], recorded)
        if each.operator.name in FROM_RAW and not idle:
            verdict.differences += _finals(each, wanted.logs[each.log], recorded)
    if not idle:
        for each, there in chains(plan, made_chains, wanted.logs):
            verdict.differences += _of_chain(each, there, recorded)
        for join in judged_joins(plan, made_joins, wanted.logs):
            verdict.differences += join.differences(recorded)
            for each, there in join.sums():
                verdict.differences += _of_chain(each, there, recorded)
        verdict.differences += pattern_differences(plan, made_patterns, wanted.logs, recorded)
    verdict.figures = _figures(plan, logs, recorded, wanted.counts, idle)
    verdict.figures["handed on"] = stages.height
    return verdict


def ingested(
    plan: Plan,
    raw: Mapping[Partition, Sequence[RawRecord]],
    loaded: Mapping[Partition, int],
) -> Wanted:
    """Run ingest over each raw partition in one piece, and make one segment of it all.

    ``loaded``: the offset up to which the partition of a table was loaded; these rows come first.
    """
    ingest, builder = Ingest(plan), SegmentBuilder(0)
    letters: Counter[Message] = Counter()
    counts = Counts()
    for at, records in raw.items():
        end = loaded.get(at, 0)
        progress = Progress()
        for loading in (True, False):
            some = [record for record in records if (record.offset < end) == loading]
            if some:
                progress = replace(progress, loading=loading)
                taken = ingest.take(as_batch(at, some), progress)
                progress = taken.progress
                builder.add(taken)
                counts += taken.counts
                letters.update(zip(*encode_dead_letters(taken.dead_letters), strict=True))
    partitions = Counter(at.topic for at in raw)
    logs = {log.topic: dict(enumerate(builder.build(log, 0, partitions))) for log in plan.logs}
    return Wanted(logs, letters, counts)


def _loaded(plan: Plan, logs: Mapping[str, Log]) -> dict[Partition, int]:
    """Return how far the partitions of tables were loaded: their marks had no watermark so far."""
    ends: dict[Partition, int] = {}
    for log in logs.values():
        for mark in (each for segments in log.values() for s in segments for each in s.sources):
            if _is_loading(plan, mark):
                at = Partition(mark.topic, int(mark.source.rpartition("/")[2]))
                ends[at] = max(ends.get(at, 0), mark.next_offset)
    return ends


def _is_loading(plan: Plan, mark: SourceMark) -> bool:
    is_raw = not is_operator_source(mark.source)
    return is_raw and mark.watermark_ms == NEVER_MS and plan.source_of(mark.topic).loads


def as_batch(at: Partition, records: Sequence[RawRecord]) -> RecordBatch:
    """Return records of a raw partition as ingest takes them."""
    return RecordBatch(
        topic=at.topic,
        partition=at.number,
        offsets=np.array([record.offset for record in records]),
        timestamps=[record.timestamp_ms for record in records],
        keys=[record.key for record in records],
        headers=[None] * len(records),
        values=[record.value for record in records],
        next_offset=records[-1].offset + 1,
        received_at_ms=0,
    )


def _log(recorded: Recorded, log: LogPlan) -> dict[int, list[Segment]]:
    return {
        number: [
            decode_segment(value or b"") for _, value in recorded.own[Partition(log.topic, number)]
        ]
        for number in range(log.partitions)
    }


def _raw(plan: Plan, sent: Sequence[Record], recorded: Recorded) -> Iterator[str]:
    for at, records in recorded.raw.items():
        topic = at.topic.removeprefix(f"{plan.pipeline}-")
        values = [r.value for r in sent if (r.topic, r.partition) == (topic, at.number)]
        if values != [record.value for record in records]:
            yield f"{at} holds {len(records)} records, sent were {len(values)}: the feed failed"


def _fates(sent: Sequence[Record], counts: Counts) -> Iterator[str]:
    drawn = Counter(record.fate for record in sent)
    for fate, count in drawn.items():
        if getattr(counts, fate) != count:
            yield f"{getattr(counts, fate)} records are {fate}, drawn were {count}"
    if counts.records != counts.passed + counts.filtered + counts.dead + counts.blank:
        yield f"the counts of ingest do not add up: {counts}"


def _letters(recorded: Recorded, plan: Plan, wanted: Wanted) -> Iterator[str]:
    letters = Counter(recorded.own[Partition(plan.dead_letters, 0)])
    for what, extra in (
        ("too many", letters - wanted.letters),
        ("missing", wanted.letters - letters),
    ):
        if extra:
            yield f"{extra.total()} dead letters {what}, such as {next(iter(extra))}"


def _marks(plan: Plan, log: LogPlan, segments: Log, recorded: Recorded) -> Iterator[str]:
    """Walk along the marks of each source: every offset must be in exactly one of them."""
    for number, listed in segments.items():
        where = f"{log.topic}/{number}"
        last: dict[str, SourceMark] = {}
        raw = (mark for segment in listed for mark in segment.sources)
        for mark in (each for each in raw if not is_operator_source(each.source)):
            before = last.get(mark.source)
            begin, watermark_ms = _end(before)
            was_loading = before is not None and _is_loading(plan, before)
            if mark.first_offset != begin:
                yield f"{where}: {mark.source} goes on at {mark.first_offset}, not {begin}"
            if begin and mark.watermark_before_ms != watermark_ms and not was_loading:
                yield f"{where}: the watermark of {mark.source} jumps before {begin}"
            last[mark.source] = mark
        for at, records in recorded.raw.items():
            end = records[-1].offset + 1 if records else 0
            if at.topic in log.topics and _end(last.get(str(at)))[0] != end:
                yield f"{where}: {at} ends at {_end(last.get(str(at)))[0]}, not {end}"


def _end(mark: SourceMark | None) -> tuple[int, int]:
    return (0, 0) if mark is None else (mark.next_offset, mark.watermark_ms)


def _rows(log: LogPlan, got: Log, wanted: Log) -> Iterator[str]:
    """Compare the rows of each stream and log partition, whatever the order of their sources."""
    for number in range(log.partitions):
        for stream in log.streams:
            here, there = (_in_order(stream.name, each[number]) for each in (got, wanted))
            if not here.equals(there):
                yield (
                    f"{log.topic}/{number}: rows of {stream.name} differ: {here.height}, wanted "
                    f"{there.height}; {first_difference(here.rows(), there.rows())}"
                )


def _in_order(stream: str, segments: Iterable[Segment]) -> pl.DataFrame:
    frames = [
        segment.streams[stream].with_columns(
            pl.Series([mark.source for mark in segment.sources], dtype=pl.String)
            .gather(segment.streams[stream][SOURCE])
            .alias(SOURCE)
        )
        for segment in segments
        if stream in segment.streams
    ]
    return pl.concat(frames).sort(SOURCE, OFFSET, SUB_ROW) if frames else pl.DataFrame()


def _fell_idle(logs: Mapping[str, Log], recorded: Recorded) -> bool:
    """Whether any source with records was ever idle."""
    spoke = {str(at) for at, records in recorded.raw.items() if records}
    return any(
        mark.idle and mark.source in spoke
        for log in logs.values()
        for segments in log.values()
        for segment in segments
        for mark in segment.sources
    )


def _finals(plan: OperatorPlan, log: Log, recorded: Recorded) -> Iterator[str]:
    """Compare what a sink holds at the end, and the late rows, with those of the raw records."""
    published = OperatorResults(plan)
    for segments in log.values():
        task = OperatorTask(plan.operator)
        for segment in segments:
            published.add(task.step(segment))
        published.add(task.finish())
    results, late = plan.results, plan.port("late")
    encoder = encoder_of(results)
    wanted = decoded(encoder, encoder.encode(published.every("panes"))[1])
    got = decoded(encoder, recorded.values(results.topic))
    yield from _held_differences(results.topic, _held(plan, got), _held(plan, wanted))
    rows = published.every("late")
    values = encoder_of(late).encode(rows)[1] if rows.height else []
    found = recorded.values(late.topic)
    if sorted(found) != sorted(values):
        yield f"{late.topic} holds {len(found)}, the raw records give {len(values)}"


def _of_chain(plan: OperatorPlan, wanted: set[Result], recorded: Recorded) -> Iterator[str]:
    topic = plan.results.topic
    held = _held(plan, rows_published(plan.results, recorded))
    got = {_result(pane): pane for pane in held.values()}
    differ = wanted ^ got.keys()
    if differ:
        first = min(differ, key=repr)
        which = "lacks" if first in wanted else "must not have"
        yield f"{topic}: {len(differ)} of {len(wanted)} results differ; it {which} {first}"


def _result(pane: Pane) -> Result:
    return Result._make(pane.get(name) for name in Result._fields)


def _held(plan: OperatorPlan, panes: Iterable[Pane]) -> dict[tuple[Any, ...], Pane]:
    """Return the last pane of each window but those left open; ``final`` depends on the cuts."""
    held: dict[tuple[Any, ...], Pane] = {}
    for pane in panes:
        window = tuple(pane[name] for name in plan.results.port.identity)
        if window[0] == END:
            continue
        if pane.get("retracted"):
            del held[window]
        else:
            left_out = ("final", "end_of_input")
            held[window] = {name: v for name, v in pane.items() if name not in left_out}
    return held


def _held_differences(
    name: str, got: Mapping[Any, Pane], wanted: Mapping[Any, Pane]
) -> Iterator[str]:
    differ = [w for w in {**wanted, **got} if got.get(w) != wanted.get(w)]
    if differ:
        first = differ[0]
        yield (
            f"{name}: {len(differ)} of {len(wanted)} windows differ from the raw records', as "
            f"{first}: {got.get(first)}, wanted {wanted.get(first)}"
        )


def _figures(
    plan: Plan, logs: Mapping[str, Log], recorded: Recorded, counts: Counts, idle: bool
) -> dict[str, int]:
    outputs = [name for each in plan.operators for name in each.topics]
    return {
        "records": counts.records,
        "segments": sum(len(segments) for log in logs.values() for segments in log.values()),
        "results": sum(len(recorded.values(name)) for name in outputs),
        "dead letters": counts.dead,
        "by raw records": 0 if idle else sum(p.operator.name in FROM_RAW for p in plan.operators),
    }
