"""Rows that came before the first segment of a log: windows that they belong to are not whole.

See docs/semantics.md, "Logs without their beginning".  The first mark of a source in a log tells
whether the log has the source's first rows: the watermark before it is NEVER_MS only then.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import polars as pl

from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import PANES, Port
from tidemark.core.time.raw_topics import value_of
from tidemark.core.time.segment import NEVER_MS, Segment, is_operator_source, operator_of
from tidemark.core.time.watermark import delay_ms, largest_of
from tidemark.core.windows.pane import START, WINDOW
from tidemark.plan.physical import OperatorPlan, Plan


def delays_ms(plan: Plan, operator: OperatorPlan) -> Mapping[str, int]:
    """Return the delay of the watermark of each source that an operator reads, by raw topic."""
    return {
        topic: delay_ms(source.watermark)
        for source in plan.sources
        for topic in source.topics
        if topic in operator.operator.sources
    }


class FirstMarks:
    """Watches for the first mark of each source."""

    def __init__(self, delays_ms: Mapping[str, int], heard: Iterable[str] = ()) -> None:
        """``delays_ms``: by raw topic or pattern.  ``heard``: sources whose first mark has come.

        ``lost_stages``: the stages with marks before the beginning, by their names as sources.
        Some of their rows may be lost, with unknown times: a task may be ahead of these marks.
        """
        self._delays_ms = delays_ms
        self._heard = set(heard)
        self.lost_stages: list[str] = []

    def lost_until_ms(self, segment: Segment) -> int | None:
        """Return the largest event time that rows before first marks may have, else None.

        A watermark that is not bounded may be behind such rows by any time.
        """
        found = []
        for mark in segment.sources:
            if mark.source in self._heard:
                continue
            self._heard.add(mark.source)
            if mark.watermark_before_ms == NEVER_MS:
                continue
            delay = value_of(self._delays_ms, mark.topic)
            if is_operator_source(mark.source):
                self.lost_stages.append(mark.source)
            elif delay is not None:
                found.append(largest_of(mark.watermark_before_ms, delay))
        return max(found, default=None)


def lost_of_stages(lost: Iterable[str], sources: Collection[str]) -> str:
    """Return, for messages, what a log lacks of the stages that an operator reads; "" for nothing.

    ``lost``: stages as ``FirstMarks`` has them.  ``sources``: of the operator.
    """
    names = [repr(operator_of(each)) for each in lost if each in sources]
    return f"results of {' and '.join(names)} from before its beginning" if names else ""


def without_lost_rows(port: Port, readers: Sequence[str] = ()) -> str:
    """Return, for messages, which results of a port are not published because rows are lost.

    ``readers``: the operators that read the results.
    """
    if readers:
        return f"{without_lost_rows(port)}; windows of {', '.join(readers)} lack these results"
    if port.kind != PANES:
        return "these rows are not published"
    missing = "windows that start by then are not published"
    return (
        missing if are_of_time(port.columns) else f"{missing}, but windows in order of arrival are"
    )


def are_of_time(columns: Collection[str]) -> bool:
    """Return whether panes with these columns are of windows that event time decides."""
    return START in columns and WINDOW not in columns


def are_whole(panes: pl.DataFrame, operator: Operator, lost_ms: int) -> pl.Series:
    """Mark the panes whose windows lack no row with an event time up to ``lost_ms``."""
    if not are_of_time(panes.columns):
        return pl.Series([True] * panes.height, dtype=pl.Boolean)
    return panes[START] > lost_ms + operator.merges_within_ms
