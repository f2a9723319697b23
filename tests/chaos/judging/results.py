"""Whether the topics of an operator hold what it makes of its recorded log, message by message."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

from tests.chaos.judging.chains import Log
from tests.chaos.judging.rows import rows_published
from tests.chaos.recorded import Message, Recorded
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import Segment
from tidemark.partition import Partition
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.keyed.encoders import encoder_of

NAMES = ("revision", "timing", "retracted")
"""What, with the window, names a pane."""


def results(plan: OperatorPlan, log: Log, recorded: Recorded) -> Iterator[str]:
    """Yield what differs between the topics of an operator and what its log gives."""
    for number, segments in log.items():
        for topic, by_segment in replayed(plan, segments).items():
            got = list(recorded.own[Partition(topic, number)])
            wanted = list(chain.from_iterable(by_segment))
            if plan.operator.body.can_portion:
                sizes = [len(messages) for messages in by_segment]
                got, wanted = _by_key(got, sizes), _by_key(wanted, sizes)
            if got != wanted:
                yield (
                    f"{topic}/{number} holds {len(got)}, the log gives {len(wanted)}: "
                    f"{first_difference(got, wanted)}"
                )
    panes_port = plan.results
    if not panes_port.topic:
        return
    names = Counter(
        tuple(map(pane.get, (*panes_port.port.identity, *NAMES)))
        for pane in rows_published(panes_port, recorded)
    )
    yield from (f"{panes_port.topic}: {n} times {name}" for name, n in names.items() if n > 1)


def replayed(plan: OperatorPlan, segments: Sequence[Segment]) -> dict[str, list[list[Message]]]:
    """Return the messages that the operator makes of a log partition, by topic and segment."""
    task = OperatorTask(plan.operator)
    found: dict[str, list[list[Message]]] = {topic: [] for topic in plan.topics}
    for segment in segments:
        output = task.step(segment)
        assert output.rows == output.accepted + output.late
        for each in plan.published:
            rows = output.frames.get(each.port.name)
            encoded = encoder_of(each).encode(rows) if rows is not None else ([], [])
            found[each.topic].append([*zip(*encoded, strict=True)])
    return found


def _by_key(messages: Sequence[Message], sizes: Sequence[int]) -> list[Message]:
    """Return messages with those of each segment by key, as services may cut other portions.

    Messages of one key stay in order.  ``sizes``: the number of messages of each segment.
    """
    ends = [*accumulate(sizes), len(messages)]
    return [
        message
        for low, high in pairwise([0, *ends])
        for message in sorted(messages[low:high], key=lambda each: each[0] or b"")
    ]


def first_difference(got: Sequence[Any], wanted: Sequence[Any]) -> str:
    """Return the place where two sequences differ, with both sides."""
    for n, (here, there) in enumerate(zip(got, wanted, strict=False)):
        if here != there:
            return f"at {n} {here}, wanted {there}"
    n = min(len(got), len(wanted))
    return f"at {n} {[*got[n : n + 1]] or 'nothing'}, wanted {[*wanted[n : n + 1]] or 'nothing'}"
