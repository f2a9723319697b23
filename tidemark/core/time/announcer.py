"""The watermark of an operator that feeds others: one mark from the progress of all its tasks.

An operator publishes on many log partitions, and is one source to the operators that read its
results.  The task on each partition reports its progress.  The announcer gathers the reports and
says what the operator as a whole has reached (docs/semantics.md, "The clock").

Reports have numbers that grow, and a mark has the number of the next report to read.  So a mark
that comes again is known by its number.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidemark.core.time.segment import NEVER_MS, SourceMark, operator_source


class TaskProgress(NamedTuple):
    """What an operator has reached on one log partition.

    ``generation``: number of the state.  ``watermark_ms``: no later row of the partition is before
    it.  ``idle``: all its sources are idle, and time alone makes nothing due.
    """

    partition: int
    generation: int
    watermark_ms: int
    idle: bool


Report = tuple[str, TaskProgress]
"""An operator's name, and what it has reached on a log partition."""


class Announced(NamedTuple):
    """The last mark: its number, and what it said."""

    number: int = 0
    watermark_ms: int = NEVER_MS
    idle: bool = False


class Announcer:
    """Gathers the progress of an operator's tasks; ``mark`` returns what is new."""

    def __init__(
        self, operator: str, generations: Mapping[int, int], last: Announced | None = None
    ) -> None:
        """Start without reports.

        Args:
            operator: its name.
            generations: by log partition, the number of the present state; reports of earlier
                states do not count.
            last: the last mark, None before the first.
        """
        self._source = operator_source(operator)
        self._generations = generations
        self._found: dict[int, TaskProgress] = {}
        self._near: set[int] = set()
        self.last = last
        self.number = 0
        """The number of the next report."""

    def take(self, number: int, progress: TaskProgress) -> None:
        """Take a report; ``number``: its own, higher than those before."""
        self.number = number + 1
        if progress.partition not in self._near:
            self._note(progress)

    def hear(self, progress: TaskProgress) -> None:
        """Take a report before it is read: its task is in the process of the announcer.

        Later reports of the task are heard too, so those that are read say nothing new.
        """
        self._near.add(progress.partition)
        self._note(progress)

    def gone(self, partitions: Iterable[int]) -> bool:
        """Note that tasks of these partitions have left the process; return whether one was heard.

        Their reports count again when they are read.  The first of them may be older than those
        heard, so the caller asks for no mark before all of them are read.
        """
        left = self._near.intersection(partitions)
        self._near -= left
        return bool(left)

    def _note(self, progress: TaskProgress) -> None:
        if progress.generation >= self._generations.get(progress.partition, 0):
            self._found[progress.partition] = progress

    def mark(self) -> SourceMark | None:
        """Return the mark that is due; None if nothing has changed since the last one.

        The lowest watermark counts.  Until all partitions have reported there is no mark: rows of
        the others would be late.  There is also no mark until the reports of the last mark are
        read.
        """
        before = self.last or Announced()
        if self.number < before.number or self.waits_for:
            return None
        lowest_ms = min(each.watermark_ms for each in self._found.values())
        watermark_ms = max(lowest_ms, before.watermark_ms)  # a task may repeat earlier work
        idle = all(each.idle for each in self._found.values())
        if self.last is not None and (watermark_ms, idle) == self.last[1:]:
            return None
        # Reports that are heard have no number yet, but a mark has one above 0.
        number, before_ms = max(self.number, 1), before.watermark_ms
        return SourceMark(self._source, number, number, before_ms, watermark_ms, idle)

    def announced(self, mark: SourceMark) -> None:
        """Note that a mark is written."""
        self.last = Announced(mark.next_offset, mark.watermark_ms, mark.idle)

    @property
    def waits_for(self) -> list[int]:
        """The partitions that have not reported yet."""
        return [number for number in self._generations if number not in self._found]
