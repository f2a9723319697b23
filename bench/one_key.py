"""CPU time of each task of an aggregate of all rows, in one task and in two phases.

    python -m bench.one_key [--n 2000000] [--rate 10000] [--partitions 4] [--batch 20000]
        [--sketches]

Both plans process the same records, in this process, without Kafka.  CPU time is that of the tasks
on log partitions: they decode segments, process rows and publish panes.  The busiest task limits
how many records a second the pipeline can take, whatever the number of processes.  ``--rate``:
records for each second of event time, so windows have ten times as many.
"""

import argparse
import time
from collections.abc import Iterator
from unittest import mock

import numpy as np

from tidemark import Pipeline, bounded, count, count_distinct, top_k, tumbling
from tidemark import max as greatest
from tidemark import sum as total
from tidemark.core.operators.task import OperatorTask
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.local.handover import Handover, Written
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.serde.segments import decode_segment, encode_segment

_TOPIC = "nums"


def plan_of(partitions: int, *, sketches: bool, two_phases: bool) -> Plan:
    """Return the plan of count, sum and maximum of all rows, in windows of 10 s."""
    pipeline = Pipeline("bench", partitions)
    schema = {"v": float, "at": int}
    nums = pipeline.source(_TOPIC, schema=schema, event_time="at", watermark=bounded("2s"))
    windowed = nums.key_by().window(tumbling("10s"))
    more = {"distinct": count_distinct("v", approximate=True), "best": top_k("at", 10, by="v")}
    values = {"n": count(), "v": total("v"), "most": greatest("v"), **(more if sketches else {})}
    windowed.aggregate(**values).to("out")
    if two_phases:
        return pipeline.plan()
    with mock.patch("tidemark.plan.operators.stages.is_in_two_phases", return_value=False):
        return pipeline.plan()


def batches(n: int, rate: int, partitions: int, size: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield a raw partition and records of it, in turn."""
    draw = np.random.default_rng(1)
    for begin in range(0, n, size):
        at_ms = (np.arange(begin, begin + size) * 1000) // rate
        values = draw.random(size)
        lines = [b'{"v":%.6f,"at":%d}' % (v, at) for v, at in zip(values, at_ms, strict=True)]
        yield begin // size % partitions, lines


class Run:
    """The tasks of a plan, with the CPU seconds of each by operator and partition."""

    def __init__(self, plan: Plan, partitions: int) -> None:
        """Start before the first record; ``partitions``: of the raw topic and of logs."""
        self._plan, self._partitions = plan, partitions
        self._ingest, self._handover = Ingest(plan), Handover(plan, 0)
        self._progress = [Progress() for _ in range(partitions)]
        self._tasks = {
            (each.name, number): OperatorTask(each.operator)
            for each in plan.operators
            for number in range(partitions)
        }
        self.spent_s: dict[tuple[str, int], float] = dict.fromkeys(self._tasks, 0.0)
        self.published = 0

    def take(self, raw: int, lines: list[bytes]) -> None:
        """Let ingest and tasks process records of a raw partition."""
        progress = self._progress[raw]
        batch = RecordBatch.of_values(_TOPIC, raw, progress.next_offset, lines, 0)
        taken = self._ingest.take(batch, progress)
        self._progress[raw] = taken.progress
        builder = SegmentBuilder(epoch=0)
        builder.add(taken)
        for log in self._plan.logs:
            built = builder.build(log, 0, {_TOPIC: self._partitions})
            for number, segments in enumerate(built):
                for segment in segments:
                    self._process(Written(log.topic, number, segment))

    def _process(self, written: Written) -> None:
        value = encode_segment(written.segment)
        for each in self._plan.operators:
            if each.log == written.log:
                for more in self._step(each, written.partition, value):
                    self._process(more)

    def _step(self, plan: OperatorPlan, number: int, value: bytes) -> list[Written]:
        """Return what a task hands on after a segment."""
        task = self._tasks[plan.name, number]
        begin_s = time.process_time()
        output = task.step(decode_segment(value))
        task.discard_changes(task.clock_ms)
        self.spent_s[plan.name, number] += time.process_time() - begin_s
        derived = self._plan.derived_of(plan.name)
        if derived is None:
            self.published += output["panes"].height
            return []
        return [
            *self._handover.rows(derived, number, output["panes"]),
            *self._handover.marks(derived, number, task.reached()),
        ]


def main() -> None:
    """Print the CPU seconds of the tasks of both plans."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=2_000_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--sketches", action="store_true", help="with a sketch and a top 10")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--batch", type=int, default=20_000)
    options = parser.parse_args()
    busiest = {}
    for two_phases in (False, True):
        plan = plan_of(options.partitions, sketches=options.sketches, two_phases=two_phases)
        run = Run(plan, options.partitions)
        for raw, lines in batches(options.n, options.rate, options.partitions, options.batch):
            run.take(raw, lines)
        busiest[two_phases] = max(run.spent_s.values())
        name = "two phases" if two_phases else "one task"
        print(f"{name}: {run.published} panes, {sum(run.spent_s.values()):.2f} CPU s")
        for (operator, number), cpu_s in sorted(run.spent_s.items()):
            print(f"  {operator} {number}: {cpu_s:.3f}")
    ratio = busiest[False] / busiest[True]
    print(f"the busiest task: {busiest[False]:.3f} and {busiest[True]:.3f} CPU s, {ratio:.1f} to 1")


if __name__ == "__main__":
    main()
