"""Aggregates, windows and columns as text: plans show them, and states are compared by them."""

from collections.abc import Iterable

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.rows.expression import Columns
from tidemark.core.time.duration import duration_text
from tidemark.core.windows.trigger import OnClose
from tidemark.core.windows.window import Session
from tidemark.plan.logical import WindowDefinition
from tidemark.plan.outputs import Output


def described(output: Output) -> str:
    """Return what an operator computes."""
    phase = "partials of " if output.partials_of else "merged " if output.merges else ""
    return f"{phase}{aggregates_text(output.aggregation)} in {windows_text(output.windowed)}"


def aggregates_text(aggregation: Aggregation) -> str:
    """Return aggregates as a user writes them."""
    return ", ".join(f"{name}={kind}" for name, kind in aggregation.aggregates.items())


def columns_text(names: Iterable[str], columns: Columns) -> str:
    """Return some of the columns with their types."""
    return ", ".join(f"{name}: {columns[name]}" for name in names)


def windows_text(windowed: WindowDefinition) -> str:
    """Return windows with their options."""
    text = windowed.window.label
    if windowed.by_processing_time:
        text = f"processing_time({text})"
    if windowed.allowed_lateness_ms:
        text += f", allowed lateness {duration_text(windowed.allowed_lateness_ms)}"
    if windowed.trigger != OnClose():
        text += f", {windowed.trigger}"
    if windowed.accumulation == "discarding":
        text += ", discarding"
    if windowed.empty:
        text += ", empty ones too"
    may_be_late = isinstance(windowed.window, Session) and not windowed.by_processing_time
    # Changelogs name the rule: one without "strict" holds sessions of "after_merging".
    return f"{text}, strict" if may_be_late and windowed.lateness == "strict" else text
