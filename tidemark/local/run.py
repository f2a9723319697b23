"""The in-process runner: a whole pipeline in one process, without Kafka, by the bounded rule.

Records take the way they take in the services, through the same ingest and the same operators,
segment by segment.  There is no idleness and no wall clock, and the end of input moves every clock
past all event times (docs/semantics.md, "Promises", 3).
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import polars as pl

from tidemark.core.operators.ports import APPEND, DEAD, LATE, PANES, Port
from tidemark.core.operators.task import LogTask, Output, Tally
from tidemark.core.time.segment import OFFSET, SOURCE, SUB_ROW
from tidemark.core.windows.pane import END, END_OF_INPUT, FINAL, RETRACTED, START
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
class Published:
    """What one operator published, in order, over all partitions; rows = accepted + late + dead.

    ``frames``: by port, the rows of each step.
    """

    plan: OperatorPlan
    tally: Tally = field(default_factory=Tally)
    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)

    def add(self, output: Output) -> None:
        """Take what a step published; results say whether only the end of input published them."""
        self.tally.add(output)
        for each in self.plan.ports:
            rows = output.frames.get(each.port.name)
            if rows is not None and rows.height:
                self.frames.setdefault(each.port.name, []).append(_marked(each.port, rows))

    def every(self, name: str) -> pl.DataFrame:
        """Return the rows of a port as they were published; late rows in order of their records."""
        frames = self.frames.get(name)
        if not frames:
            return pl.DataFrame()
        rows = pl.concat(frames, how="vertical_relaxed")
        late = self.plan.operator.port(name).kind in (LATE, DEAD)
        return rows.sort(SOURCE, OFFSET, SUB_ROW) if late else rows

    def last(self, name: str) -> pl.DataFrame:
        """Return what a sink holds of a port at the end.

        In mode ``UPSERT`` that is the last row of each identity, unless it is withdrawn.  In mode
        ``APPEND`` it is every row.  Panes are sorted by (end, key, start or number).

        The result is a function of the records alone, however they were cut: at the end of input
        each last pane is final, whenever it was published.  The end of input does not close windows
        that rows close.
        """
        rows, port = self.every(name), self.plan.operator.port(name)
        if rows.is_empty() or port.kind in (LATE, DEAD):
            return rows
        by = [*[END] * (port.kind == PANES), *port.identity]
        if port.mode == APPEND:
            return rows.sort(*by, *port.version)
        last = rows.unique(port.identity, keep="last", maintain_order=True)
        live = last.filter(~pl.col(RETRACTED))
        if port.kind == PANES and START in port.identity:
            live = live.with_columns(pl.lit(True).alias(FINAL))
        return live.sort(*by)


def _marked(port: Port, rows: pl.DataFrame) -> pl.DataFrame:
    if port.kind in (LATE, DEAD) or END_OF_INPUT in rows.columns:
        return rows
    return rows.with_columns(pl.lit(value=False).alias(END_OF_INPUT))


class LocalRun:
    """One run of a plan over lines of raw topics, each topic with one partition."""

    def __init__(self, plan: Plan, cuts: Cuts | None = None, now_ms: int = 0) -> None:
        """Start with nothing read; ``now_ms`` stands for the wall clock all along."""
        self.plan = plan
        self.counts: dict[str, Counts] = {source.topic: Counts() for source in plan.sources}
        self.dead_letters: list[DeadLetter] = []
        self.published = {each.name: Published(each) for each in plan.operators}
        self._cuts = cuts or Cuts()
        self._now_ms = now_ms
        self._ingest = Ingest(plan)
        self._progress = {source.topic: Progress() for source in plan.sources}
        self._tasks = {
            (log.topic, partition): LogTask(
                each.operator for each in plan.operators if each.log == log.topic
            )
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
        for log in self._tasks.values():
            for task, output in log.finish():
                self.published[task.operator.name].add(output)

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
                for task, steps in self._tasks[log.topic, partition].steps([segment]):
                    self.published[task.operator.name].add(steps.output)
