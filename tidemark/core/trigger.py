"""Triggers: when a window's panes are published.  Frozen values; docs/semantics.md, "Triggers"."""

from dataclasses import dataclass

from tidemark.errors import PipelineError


@dataclass(frozen=True, slots=True)
class EveryRows:
    """A pane at every ``rows``-th row of a key and window."""

    rows: int

    def __post_init__(self) -> None:
        """Refuse what is no number of rows."""
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise PipelineError(f"every(rows): {self.rows!r} is no positive integer")

    def __str__(self) -> str:
        return "every row" if self.rows == 1 else f"every {self.rows} rows"


@dataclass(frozen=True, slots=True)
class OnClose:
    """One pane when the clock reaches the end; then one for each segment with rows behind it."""


@dataclass(frozen=True, slots=True)
class OnFinal:
    """One pane with everything, when the clock reaches end + allowed lateness."""


Trigger = OnClose | OnFinal | EveryRows


def on_close() -> OnClose:
    """Publish a window when the clock reaches its end, and again when rows come after that."""
    return OnClose()


def on_final() -> OnFinal:
    """Publish a window once, when no row can be added any more."""
    return OnFinal()


def on_update() -> EveryRows:
    """Publish a window at each row added to it, and not when it closes."""
    return EveryRows(1)


def every(*, rows: int) -> EveryRows:
    """Publish a window again and again: at every so many rows."""
    return EveryRows(rows)
