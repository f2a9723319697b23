"""The module for a sample, with what its source refuses of the sample."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.infer.inference import infer
from tidemark.infer.module import module_text, window_size_ms
from tidemark.infer.sample import Sample, SampleRecord
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.language.pipeline import Pipeline
from tidemark.plan.physical import Plan

_REASONS = 10


def fitted_module(sample: Sample, topic: str, origin: str) -> str:
    """Return the module for a sample; comments say what it makes of the sample.

    ``origin``: what the sample was, for the first line.

    Raises:
        ConfigurationError: no record is an object with a value.
    """
    inferred = infer(sample)
    plan = plan_of(module_text(inferred, topic, origin, ()))
    comments = tuple(_fit_comments(plan, sample, window_size_ms(inferred)))
    return module_text(inferred, topic, origin, comments)


def plan_of(text: str) -> Plan:
    """Return the plan of a module's source text, which Tidemark made.

    Raises:
        ConfigurationError: the text is not a module with a pipeline, a fault of Tidemark.
    """
    namespace: dict[str, object] = {}
    exec(compile(text, "inferred", "exec"), namespace)
    pipeline = namespace["pipeline"]
    assert isinstance(pipeline, Pipeline)
    return pipeline.plan()


def _fit_comments(plan: Plan, sample: Sample, size_ms: int) -> Iterator[str]:
    """Yield what a pipeline makes of the sample: how many records pass, are dead or late, and why.

    ``size_ms``: of its windows.
    """
    reasons: Counter[str] = Counter()
    firsts: dict[str, str] = {}
    total = blank = rows = late = 0
    ingest = Ingest(plan, sample.writers)
    partitions = sorted({each.partition for each in sample.records})
    for partition in partitions:
        batch = _batch(plan, [each for each in sample.records if each.partition == partition])
        taken = ingest.take(batch, Progress())
        total += len(batch)
        blank += taken.counts.blank
        reasons.update(letter.reason for letter in taken.dead_letters)
        for letter in taken.dead_letters:
            where = f" of partition {partition}" if len(partitions) > 1 else ""
            firsts.setdefault(letter.reason, f"record {letter.offset + 1}{where}")
        for stream in taken.streams.values():
            rows += stream.height
            late += _late(stream, size_ms)
    dead = reasons.total()
    yield f"{total:,} records = {total - dead - blank:,} that fit + {dead:,} dead + {blank:,} blank"
    yield f"{rows:,} rows = {rows - late:,} on time + {late:,} late"
    for reason, count in reasons.most_common(_REASONS):
        yield f"  {count:,} dead from {firsts[reason]} on: {' '.join(reason.split())!r}"
    if len(reasons) > _REASONS:
        others = dead - sum(count for _, count in reasons.most_common(_REASONS))
        yield f"  {others:,} dead for other reasons"


def _batch(plan: Plan, records: Sequence[SampleRecord]) -> RecordBatch:
    values = [each.value for each in records]
    batch = RecordBatch.of_values(plan.sources[0].topics[0], 0, 0, values, 0)
    return replace(
        batch,
        timestamps=[each.timestamp_ms for each in records],
        keys=[each.key for each in records],
        headers=[each.headers for each in records],
    )


def _late(rows: pl.DataFrame, size_ms: int) -> int:
    """Return the number of rows whose tumbling window was closed before them."""
    end_ms = (pl.col(EVENT_TIME) // size_ms + 1) * size_ms
    is_late = (pl.col(WATERMARK) != NEVER_MS) & (end_ms <= pl.col(WATERMARK))
    return int(rows.select(is_late.sum()).item())
