"""The in-process runner: a whole pipeline in one process, without Kafka, by the bounded rule.

Records take the way they take in the services, through the same ingest and the same operators,
segment by segment.  There is no idleness and no wall clock, and the end of input moves every clock
past all event times (docs/semantics.md, "Promises", 3).
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import polars as pl

from tidemark.core.operators.operator import Output
from tidemark.core.time.clock import ClockTable
from tidemark.core.time.segment import OFFSET, SOURCE, SUB_ROW, Segment
from tidemark.core.windows.pane import END, END_OF_INPUT, FINAL, RETRACTED, REVISION, START, TIMING
from tidemark.ingest.ingest import Counts, DeadLetter, Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.plan.physical import LogPlan, OperatorPlan, Plan

BATCH = 20_000
"""Records a segment takes at most, unless cuts are drawn."""


@dataclass
class Cuts:
    """How many records the next segment takes: a full batch, or what the seed draws."""

    seed: int | None = None

    def __post_init__(self) -> None:
        self._draw = None if self.seed is None else random.Random(self.seed)

    def next(self) -> int:
        """Return the size of the next batch; small ones are as likely as large ones."""
        if self._draw is None:
            return BATCH
        return int(BATCH ** self._draw.random())


@dataclass
class _Task:
    """One operator on one log partition."""

    plan: OperatorPlan
    clocks: ClockTable
    state: Any

    def step(self, segment: Segment) -> Output:
        output = self.plan.operator.step(segment, self.clocks, self.state)
        self.state.changes()  # no changelog takes them here
        self.state.purge(self.clocks.clock_ms)
        return output

    def finish(self) -> Output:
        return self.plan.operator.finish(self.clocks, self.state)


@dataclass
class Published:
    """What one operator published, in order, over all partitions; rows = accepted + late."""

    plan: OperatorPlan
    rows: int = 0
    panes: list[pl.DataFrame] = field(default_factory=list)
    late: list[pl.DataFrame] = field(default_factory=list)

    def add(self, output: Output) -> None:
        """Take what a step gave; all panes say whether only the end of input published them."""
        self.rows += output.rows
        panes = output.panes
        if panes.height:
            marked = END_OF_INPUT in panes.columns
            self.panes.append(
                panes if marked else panes.with_columns(pl.lit(value=False).alias(END_OF_INPUT))
            )
        if output.late.height:
            self.late.append(output.late)

    def all_panes(self) -> pl.DataFrame:
        """Return every pane as it was published."""
        return pl.concat(self.panes, how="vertical_relaxed") if self.panes else pl.DataFrame()

    def last_panes(self) -> pl.DataFrame:
        """Return what a sink holds at the end: per key and window the last pane, unless withdrawn.

        Discarding, every pane: a sink adds them up.

        Sorted by (end, key, start or number).  A function of the records alone, however they were
        cut: at the end of input each last pane is final, whenever it was published.  The end of
        input says nothing of windows that rows close.
        """
        panes = self.all_panes()
        if panes.is_empty():
            return panes
        window = [*self.plan.operator.key, self.plan.identity]
        if self.plan.discarding:
            return panes.sort(END, *window, REVISION, TIMING)
        last = panes.unique(window, keep="last", maintain_order=True)
        live = last.filter(~pl.col(RETRACTED))
        if self.plan.identity == START:
            live = live.with_columns(pl.lit(True).alias(FINAL))
        return live.sort(END, *window)

    def late_rows(self) -> pl.DataFrame:
        """Return all late rows, in the order of their records."""
        if not self.late:
            return pl.DataFrame()
        return pl.concat(self.late).sort(SOURCE, OFFSET, SUB_ROW)


class LocalRun:
    """One run of a plan over lines of raw topics, each topic with one partition."""

    def __init__(self, plan: Plan, cuts: Cuts | None = None, now_ms: int = 0) -> None:
        """Start with nothing read; ``now_ms`` stands for the wall clock all along."""
        self.plan = plan
        self.counts: dict[str, Counts] = {source.topic: Counts() for source in plan.sources}
        self.dead_letters: list[DeadLetter] = []
        self.published = {each.operator.name: Published(each) for each in plan.operators}
        self._cuts = cuts or Cuts()
        self._now_ms = now_ms
        self._ingest = Ingest(plan)
        self._progress = {source.topic: Progress() for source in plan.sources}
        self._tasks = {
            (log.topic, partition): [
                _Task(each, each.operator.clocks(), each.operator.body.fresh())
                for each in plan.operators
                if each.log == log.topic
            ]
            for log in plan.logs
            for partition in range(log.partitions)
        }

    def run(self, inputs: Mapping[str, Iterable[bytes]]) -> Iterator[int]:
        """Read all topics in turns to their end, yielding the number of records of each batch."""
        readers = {topic: iter(lines) for topic, lines in inputs.items()}
        while readers:
            for topic in list(readers):
                values = list(islice(readers[topic], self._cuts.next()))
                if values:
                    self._take(topic, values)
                    yield len(values)
                else:
                    del readers[topic]
        for task in chain.from_iterable(self._tasks.values()):
            self.published[task.plan.operator.name].add(task.finish())

    def _take(self, topic: str, values: list[bytes]) -> None:
        progress = self._progress[topic]
        batch = RecordBatch.of_values(topic, 0, progress.next_offset, values, self._now_ms)
        taken = self._ingest.take(batch, progress)
        self._progress[topic] = taken.progress
        self.counts[topic] += taken.counts
        self.dead_letters += taken.dead_letters
        builder = SegmentBuilder(epoch=0)
        builder.add(taken)
        for log in self.plan.logs:
            self._step(log, builder)

    def _step(self, log: LogPlan, builder: SegmentBuilder) -> None:
        partitions = dict.fromkeys(log.topics, 1)
        for partition, segments in enumerate(builder.build(log, self._now_ms, partitions)):
            for segment in segments:
                for task in self._tasks[log.topic, partition]:
                    self.published[task.plan.operator.name].add(task.step(segment))
