"""All operators of a log at work on one partition of it, without changelogs."""

from collections.abc import Iterable, Iterator, Sequence

from tidemark.core.operators.operator import Operator
from tidemark.core.operators.output import Output, Steps
from tidemark.core.operators.task import OperatorTask
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.segment import Segment


class LogTask:
    """All operators of a log, on one partition of the log, in the order of the plan."""

    def __init__(self, operators: Iterable[Operator], store: BlockStore = IN_MEMORY) -> None:
        """Start before the first segment."""
        self.tasks = [OperatorTask(each, store) for each in operators]

    @property
    def streams(self) -> frozenset[str]:
        """The streams that any of the operators reads."""
        return frozenset().union(*(task.operator.streams for task in self.tasks))

    @property
    def clock_ms(self) -> int:
        """The lowest clock of the operators."""
        return min(task.clock_ms for task in self.tasks)

    def steps(self, segments: Sequence[Segment]) -> Iterator[tuple[OperatorTask, Steps]]:
        """Process segments with each operator, without a changelog."""
        for task in self.tasks:
            for steps in task.steps(segments):
                task.discard_changes(steps.clock_ms)
                yield task, steps

    def finish(self) -> Iterator[tuple[OperatorTask, Output]]:
        """End bounded input for each operator."""
        for task in self.tasks:
            yield task, task.finish()
