"""What the operators of a process hand on to other operators: rows and reports of progress.

See docs/operations.md, "Chains".  The rows go to the logs of the operators that read them, in the
transaction of the commit, as the last of its records.  The reports say what each task has reached;
announcements.py turns them into marks.

Rows must be in the logs before the mark that closes them.  In a transaction, both become visible at
once.  Otherwise the broker may have a report before the rows, so the next commit writes it.
"""

from collections.abc import Iterable, Sequence

import polars as pl
from confluent_kafka.admin import AdminClient

from tidemark.core.operators.ports import REASON
from tidemark.core.time.announcer import Report
from tidemark.ingest.derived import derived_segments, hand_on
from tidemark.ingest.segment_builder import SegmentBuilder
from tidemark.plan.names import progress_topic
from tidemark.plan.operators.stages import readers
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.client.commit import Outbox
from tidemark.runtime.client.topics import segment_builder
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.announcements import progress_topics
from tidemark.runtime.memory import held_bytes
from tidemark.runtime.wall_clock import now_ms
from tidemark.serde.dead_letters import DeadLetterEncoder
from tidemark.serde.operator_progress import encode_progress
from tidemark.serde.segments import encode_segment


class HandingOn:
    """Collects rows of all log partitions of a process until a commit, and writes them."""

    def __init__(
        self,
        plan: Plan,
        operators: Iterable[OperatorPlan],
        builder: SegmentBuilder,
        most_bytes: int,
        *,
        certain: bool,
    ) -> None:
        """Start empty.

        Args:
            plan: of the pipeline.
            operators: those of the process.
            builder: for segments that fit the messages of all logs.
            most_bytes: the size of rows that makes a commit due.
            certain: whether all records of a commit become visible at once.
        """
        self._plan = plan
        derived = progress_topics(plan, operators).values()
        self._derived = {each.operator: each for each in derived}
        self._letters = {
            name: DeadLetterEncoder(each.dead, plan.dead_letters)
            for name, each in self._derived.items()
        }
        self._builder = builder
        self._most_bytes = most_bytes
        self._certain = certain
        self._held: Sequence[Report] = ()

    @property
    def is_full(self) -> bool:
        """Whether the rows held are so large that a commit is due."""
        return self._builder.size_bytes > self._most_bytes

    @property
    def holds_reports(self) -> bool:
        """Whether the next commit must come even if nothing else is new."""
        return bool(self._held)

    def readers(self, operator: str) -> Sequence[str]:
        """Return the operators that read the results of an operator."""
        return readers(self._plan, operator)

    def take(
        self, operator: str, results: pl.DataFrame, partition: int, handed_on: int, outbox: Outbox
    ) -> tuple[int, Sequence[str]]:
        """Take results of a log partition; the next commit writes them.

        ``handed_on``: how many results came before.  Returns that number after them, and the
        reasons of those that became dead letters.
        """
        rows = hand_on(self._derived[operator], results, partition, handed_on)
        self._builder.add(rows)
        if rows.dead.height:
            outbox.write(self._plan.dead_letters, 0, *self._letters[operator].encode(rows.dead))
        return rows.mark.next_offset, rows.dead[REASON].to_list()

    def write(self, outbox: Outbox, reports: Sequence[Report]) -> None:
        """Write all rows, then the reports; call it last in a checkpoint."""
        if not self._builder.is_empty:
            fed = (log for each in self._derived.values() for log in self._plan.fed_by(each))
            for log in {log.topic: log for log in fed}.values():
                for number, segments in enumerate(derived_segments(self._builder, log, now_ms())):
                    values = list(map(encode_segment, segments))
                    outbox.write(log.topic, number, [None] * len(values), values)
            self._builder.clear()
        due, self._held = (reports, ()) if self._certain else (self._held, reports)
        for operator, progress in due:
            key, value = encode_progress(progress)
            outbox.write(progress_topic(self._plan.pipeline, operator), 0, [key], [value])


def opened_handing_on(
    config: Config,
    admin: AdminClient,
    plan: Plan,
    operators: Sequence[OperatorPlan],
    *,
    certain: bool,
) -> HandingOn | None:
    """Return what collects the results that operators hand on; None if they hand on no results.

    ``certain``: whether all records of a commit become visible at once.

    Only a service that writes to logs asks the broker for the size of their messages.
    """
    if not progress_topics(plan, operators):
        return None
    return HandingOn(
        plan,
        operators,
        segment_builder(admin, plan),
        held_bytes(config.memory_bytes),
        certain=certain,
    )
