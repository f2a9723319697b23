"""What steps published, for comparisons."""

from collections.abc import Iterable
from typing import Any

from tidemark.core.operators.output import Output
from tidemark.core.operators.ports import DEAD, REASON
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import OFFSET, SOURCE, SUB_ROW

Published = tuple[str, Any]
"""A result: its identity as text, and its row."""


def published(task: OperatorTask, port: str, output: Output) -> list[Published]:
    """Return what a step published to a port; of refused rows what a dead letter has."""
    declared, frame = task.operator.port(port), output.frames.get(port)
    if frame is None:
        return []
    if declared.kind == DEAD:
        rows = frame.select(*declared.key, REASON, SOURCE, OFFSET, SUB_ROW)
        return [("", row) for row in rows.rows()]
    rows = declared.published(frame)
    names = declared.identity
    identities = rows.select(names).rows() if names else [()] * rows.height
    return list(zip(map(repr, identities), rows.rows(), strict=True))


def in_order_of_results(found: Iterable[Published]) -> list[Published]:
    """Return results by identity, those of one identity in the order of their publication."""
    return sorted(found, key=lambda each: each[0])
