"""Aggregates of all rows in two phases (docs/semantics.md, "One key in two phases").

``key_by()`` gives all rows one key, so one task would take every row.  Where the results allow it,
an output becomes two operators: one computes partials on every log partition, and one merges them.
docs/decisions/0040 says where, and why only there.
"""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from tidemark.core.aggregates.basic import Count, CountValues, First, Last, Max, Min
from tidemark.core.aggregates.chosen_row import Latest, MaxBy, MinBy
from tidemark.core.aggregates.distinct import ApproximateCountDistinct
from tidemark.core.aggregates.filtered import CountKept
from tidemark.core.aggregates.quantiles import ApproximateQuantile
from tidemark.core.aggregates.sums import Mean, Sum
from tidemark.core.aggregates.top import Largest, ValueCounts
from tidemark.core.aggregates.variance import StdDev, Variance
from tidemark.core.operators.aligned.two_phases import partial_columns
from tidemark.core.operators.ports import ALL
from tidemark.core.rows.expression import digest
from tidemark.core.rows.row_operators import WithColumns
from tidemark.core.windows.calendar import Calendar
from tidemark.core.windows.trigger import OnClose, OnFinal
from tidemark.core.windows.window import Hopping, Same
from tidemark.plan.logical import Node, Stage, WindowDefinition
from tidemark.plan.outputs import Output
from tidemark.plan.texts import aggregates_text, windows_text

_BOUNDED = frozenset(
    (
        Count, CountValues, CountKept, Sum, Mean, Min, Max, Variance, StdDev, First, Last, MinBy,
        MaxBy, Latest, Largest, ValueCounts, ApproximateCountDistinct, ApproximateQuantile,
    )
)  # fmt: skip
"""The aggregates whose partials do not grow with the number of rows."""


def of_one_key(node: Node) -> Node:
    """Return a stream whose rows have one key, the column ALL."""
    types = {ALL: pl.Int8()}
    only = pl.lit(0, pl.Int8()).alias(ALL)
    operator = WithColumns(node.columns, (only,), types)
    return Node({**node.columns, **types}, (node,), operator)


def windows_of_results(windows: Hopping | Calendar | Same) -> Hopping | Calendar | Same:
    """Return windows that hold the results of one window of ``windows`` each."""
    if isinstance(windows, Hopping) and windows.slide_ms < windows.size_ms:
        return Same(windows)
    return windows


def partials_parts(output: Output) -> tuple[str, str]:
    """Return the parts of the name of the operator of partials.

    A change of windows or aggregates gives another name.  So the operator of the changed output
    begins with a state of its own, and only the output starts afresh.
    """
    texts = windows_text(output.windowed), aggregates_text(output.aggregation)
    types = (f"{name}: {dtype}" for name, dtype in output.aggregation.types.items())
    return output.name, f"partials-{digest([*texts, *types])}"


def in_two_phases(output: Output, partials: str) -> tuple[Output, Output]:
    """Return the operator of partials, with the name ``partials``, and the one that merges them."""
    windowed = replace(output.windowed, trigger=OnFinal())
    stage = Stage(windowed, output.aggregation)
    results = Node(partial_columns(output.aggregation), stage=stage)
    first = Output(partials, "json", windowed, output.aggregation, results, partials_of=output.name)
    assert isinstance(windowed.window, Hopping | Calendar | Same)
    window = windows_of_results(windowed.window)
    merged = WindowDefinition(of_one_key(results), windowed.key, window, 0, OnClose())
    return first, replace(output, windowed=merged, merges=True)


def is_in_two_phases(output: Output, partitions: int) -> bool:
    """Return whether an output of all rows is computed in two phases.

    With one partition, one task takes all rows anyway.
    """
    return partitions > 1 and output.windowed.key == (ALL,) and not why_one_task(output)


def why_one_task(output: Output) -> str:
    """Return why one task takes all rows of an output; "" if several may take them."""
    return "" if output.windowed.key != (ALL,) or output.merges else next(_reasons(output), "")


def _reasons(output: Output) -> Iterator[str]:
    windowed = output.windowed
    if windowed.by_processing_time or not isinstance(windowed.window, Hopping | Calendar | Same):
        yield "only tumbling, hopping and calendar windows of event time have two phases"
    if windowed.node.replaces or output.after == "every":
        yield "updates(): a partial would have to take back rows"
    if windowed.empty:
        yield "empty=True"
    if not _only_final(windowed):
        yield "the trigger publishes windows before they are final; on_final() does not"
    if windowed.accumulation == "discarding":
        yield "discarding panes"
    for name, function in output.aggregation.functions.items():
        if type(function) not in _BOUNDED or getattr(function, "by_arrival", False):
            yield f"{name}={output.aggregation.aggregates[name]} needs all rows"


def _only_final(windowed: WindowDefinition) -> bool:
    """Return whether each window is published once, when no row can follow."""
    trigger = windowed.trigger
    if isinstance(trigger, OnFinal):
        return True
    return isinstance(trigger, OnClose) and not trigger.early and not windowed.allowed_lateness_ms
