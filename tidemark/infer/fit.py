"""What the source of a module refuses of the sample that it was inferred from."""

from collections import Counter
from collections.abc import Iterator

from tidemark.infer.module import Sample
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.language.pipeline import Pipeline
from tidemark.plan.physical import Plan

_REASONS = 10


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


def fit_comments(plan: Plan, sample: Sample) -> Iterator[str]:
    """Yield what ingest makes of the sample: how many records pass, and why others are dead."""
    reasons: Counter[str] = Counter()
    total = blank = 0
    topic = plan.sources[0].topics[0]
    ingest = Ingest(plan)
    for partition in sorted({*sample.partitions}):
        values = [
            value
            for value, at in zip(sample.values, sample.partitions, strict=True)
            if at == partition
        ]
        batch = RecordBatch.of_values(topic, partition, 0, values, 0)
        taken = ingest.take(batch, Progress())
        total += len(values)
        blank += taken.counts.blank
        reasons.update(letter.reason for letter in taken.dead_letters)
    dead = reasons.total()
    yield f"{total:,} records = {total - dead - blank:,} that fit + {dead:,} dead + {blank:,} blank"
    for reason, count in reasons.most_common(_REASONS):
        yield f"  {count:,} dead: {' '.join(reason.split())!r}"
    if len(reasons) > _REASONS:
        others = dead - sum(count for _, count in reasons.most_common(_REASONS))
        yield f"  {others:,} dead for other reasons"
