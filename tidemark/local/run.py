"""The in-process runner: a whole pipeline in one process, without Kafka, by the bounded rule.

Records pass the same ingest and the same operators as in the services, segment by segment.  There
is no idleness and no wall clock.  The source of a table is read to its end before the others.  The
end of input moves every clock past all event times (docs/semantics.md, "Promises", 3).
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import polars as pl

from tidemark.core.operators.output import Output, Tally
from tidemark.core.operators.ports import APPEND, FAILED, PANES, UPSERT, Port
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import OFFSET, SOURCE, SUB_ROW, Segment, SourceMark
from tidemark.core.windows.pane import (
    END,
    END_OF_INPUT,
    FINAL,
    RETRACTED,
    REVISION,
    START,
)
from tidemark.ingest.ingest import Counts, DeadLetter, Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.ingest.unit_check import UnitCheck
from tidemark.local.handover import Handover, Written
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.statics.rows import read_rows
from tidemark.statics.versions import StaticVersions

BATCH = 20_000
"""The largest number of records of a segment."""

_SHOWN = "@shown"


@dataclass
class Cuts:
    """The number of records of each segment: ``BATCH``, or random numbers from a seed."""

    seed: int | None = None

    def __post_init__(self) -> None:
        self._draw = None if self.seed is None else random.Random(self.seed)

    def next(self) -> int:
        """Return the next number of records; random numbers have a uniform logarithm."""
        if self._draw is None:
            return BATCH
        return int(BATCH ** self._draw.random())


@dataclass
class OperatorResults:
    """The output of one operator over all partitions, in order of publication.

    ``tally``: counts, with rows = accepted + late + dead.  ``frames``: by port, the rows of each
    step.
    """

    plan: OperatorPlan
    tally: Tally = field(default_factory=Tally)
    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)

    def add(self, output: Output, *, at_end: bool = False) -> None:
        """Add the output of a step; results get the column END_OF_INPUT if they lack it.

        ``at_end``: whether the end of input led to the step.
        """
        self.tally.add(output)
        for each in self.plan.ports:
            rows = output.frames.get(each.port.name)
            if rows is not None and rows.height:
                marked = _marked(each.port, rows, at_end=at_end)
                self.frames.setdefault(each.port.name, []).append(marked)

    def every(self, name: str) -> pl.DataFrame:
        """Return the rows of a port in order of publication; late rows in order of records."""
        frames = self.frames.get(name)
        if not frames:
            return pl.DataFrame()
        rows = pl.concat(frames, how="vertical_relaxed")
        rejects = self.plan.operator.port(name).rejects
        return rows.sort(SOURCE, OFFSET, SUB_ROW) if rejects else rows

    def last(self, name: str) -> pl.DataFrame:
        """Return the rows of a port that a sink holds at the end.

        In mode ``UPSERT`` these are the last rows of each identity, except withdrawn ones.  In mode
        ``APPEND`` these are all rows.  Panes are sorted by (end, key, start or number).  Of panes
        that failed, these are the last ones of results that no later pane gives.

        The result depends on the records alone, and not on how they were cut.  So FINAL is true for
        each last pane, because no row can follow the end of input.  The exception is windows in
        order of arrival, which the end of input does not close.
        """
        rows, port = self.every(name), self.plan.operator.port(name)
        if rows.is_empty() or port.rejects:
            return rows
        by = [*[END] * (port.kind in (PANES, FAILED)), *port.identity]
        if port.kind == FAILED and self.plan.results.port.mode == UPSERT:
            return self._unpublished(rows, port).sort(*by)
        if port.mode == APPEND:
            return rows.sort(*by, *port.version)
        last = rows.unique(port.identity, keep="last", maintain_order=True)
        live = last.filter(~pl.col(RETRACTED))
        if port.kind == PANES and START in port.identity:
            live = live.with_columns(pl.lit(True).alias(FINAL))
        return live.sort(*by)

    def _unpublished(self, failed: pl.DataFrame, port: Port) -> pl.DataFrame:
        """Return the last failed pane of each identity, without those that a later pane replaces.

        A later pane has a higher revision.  A pane of the same revision does not fail.
        """
        last = failed.unique(port.identity, keep="last", maintain_order=True)
        panes = self.every(PANES)
        if panes.is_empty():
            return last
        shown = panes.group_by(port.identity).agg(pl.col(REVISION).max().alias(_SHOWN))
        both = last.join(shown, on=port.identity, how="left", nulls_equal=True)
        return both.filter(pl.col(_SHOWN).fill_null(-1) < pl.col(REVISION)).drop(_SHOWN)


def _marked(port: Port, rows: pl.DataFrame, *, at_end: bool) -> pl.DataFrame:
    if port.rejects or END_OF_INPUT in rows.columns:
        return rows
    return rows.with_columns(pl.lit(value=at_end).alias(END_OF_INPUT))


class LocalRun:
    """One run of a plan over lines of raw topics, each topic with one partition."""

    def __init__(self, plan: Plan, cuts: Cuts | None = None, now_ms: int = 0) -> None:
        """Start before the first record; ``now_ms``: the wall clock, which does not move."""
        self.plan = plan
        self.counts: dict[str, Counts] = {topic: Counts() for topic in plan.named_topics}
        self.dead_letters: list[DeadLetter] = []
        self.published = {each.name: OperatorResults(each) for each in plan.operators}
        self._cuts = cuts or Cuts()
        self._now_ms = now_ms
        self.warnings: list[str] = []
        self._ingest = Ingest(plan)
        self._units = UnitCheck(plan)
        self._progress = {topic: Progress() for topic in plan.named_topics}
        self.handover = Handover(plan, now_ms)
        partitions = {log.topic: log.partitions for log in plan.logs}
        self._tasks = {
            each.name: [OperatorTask(each.operator) for _ in range(partitions[each.log])]
            for each in plan.operators
        }
        self._written: deque[Written] = deque()
        self._ended: set[str] = set()

    def run(self, inputs: Mapping[str, Iterable[bytes]]) -> Iterator[int]:
        """Read all topics in turn to their end; yield the number of records of each batch."""
        readers = {topic: iter(lines) for topic, lines in inputs.items()}
        for source in self.plan.sources:
            if source.static is not None:
                versions = StaticVersions(source).load(read_rows(source), self._now_ms)
                readers[source.name] = iter(versions)
        for topic in readers:  # one that a pattern matches is there from the start
            self.counts.setdefault(topic, Counts())
            loads = self.plan.source_of(topic).loads
            self._progress[topic] = Progress(loading=loads)
        while readers:
            loading = [topic for topic in readers if self._progress[topic].loading]
            for topic in loading or list(readers):
                values = list(islice(readers[topic], self._cuts.next()))
                if values:
                    self._take(topic, values)
                    yield len(values)
                else:
                    del readers[topic]
                    self._end_loading(topic)
        for plan in self.plan.operators:  # those before it have ended
            self._ended.add(plan.name)
            for partition, task in enumerate(self._tasks[plan.name]):
                self._publish(plan, partition, task.finish())
            self._process()

    def _take(self, topic: str, values: list[bytes]) -> None:
        progress = self._progress[topic]
        batch = RecordBatch.of_values(topic, 0, progress.next_offset, values, self._now_ms)
        taken = self._ingest.take(batch, progress)
        if (warning := self._units.warning(batch, taken)) is not None:
            self.warnings.append(warning)
        self._progress[topic] = taken.progress
        self.counts[topic] += taken.counts
        self.dead_letters += taken.dead_letters
        builder = SegmentBuilder(epoch=0)
        builder.add(taken)
        self._write(builder)

    def _end_loading(self, topic: str) -> None:
        """Let the clocks wait no longer for a table that was read to its end."""
        progress = self._progress[topic]
        if progress.loading:
            self._progress[topic] = progress = replace(progress, loading=False)
            self._write(SegmentBuilder(epoch=0), [progress.idle_mark(f"{topic}/0")])

    def _write(self, builder: SegmentBuilder, marks: Sequence[SourceMark] = ()) -> None:
        """Write segments to the logs, and let the operators process them."""
        partitions = dict.fromkeys(self._progress, 1)
        for log in self.plan.logs:
            built = builder.build(log, self._now_ms, partitions, marks)
            self._written += (
                Written(log.topic, partition, segment)
                for partition, segments in enumerate(built)
                for segment in segments
            )
        self._process()

    def _process(self) -> None:
        """Let the operators process all segments, and those that they write themselves."""
        while self._written:
            log, partition, segment = self._written.popleft()
            for plan in self.plan.operators:
                if plan.log == log and plan.name not in self._ended:
                    self._step(plan, partition, segment)

    def _step(self, plan: OperatorPlan, partition: int, segment: Segment) -> None:
        task = self._tasks[plan.name][partition]
        for steps in task.steps([segment]):
            task.discard_changes(steps.clock_ms)
            self._publish(plan, partition, steps.output)
        derived = self.plan.derived_of(plan.name)
        if derived is not None:
            self._written += self.handover.marks(derived, partition, task.reached())

    def _publish(self, plan: OperatorPlan, partition: int, output: Output) -> None:
        self.published[plan.name].add(output, at_end=bool(self._ended))
        derived = self.plan.derived_of(plan.name)
        if derived is None:
            return
        results = output.frames.get(derived.port.name)
        if results is not None and results.height:
            letters = len(self.handover.letters)
            self._written += self.handover.rows(derived, partition, results)
            self.published[plan.name].tally.failed += len(self.handover.letters) - letters
