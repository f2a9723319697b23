"""Triggers: when a window's panes are published.  Frozen values; docs/semantics.md, "Triggers"."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OnClose:
    """One pane when the clock reaches the end; then one for each segment with rows behind it."""


@dataclass(frozen=True, slots=True)
class OnFinal:
    """One pane with everything, when the clock reaches end + allowed lateness."""


Trigger = OnClose | OnFinal


def on_close() -> OnClose:
    """Publish a window when the clock reaches its end, and again when rows come after that."""
    return OnClose()


def on_final() -> OnFinal:
    """Publish a window once, when no row can be added any more."""
    return OnFinal()
