"""The progress of a run, where someone looks at it: in a terminal or a notebook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def shown_progress(console: Console) -> Iterator[Callable[[int], None]]:
    """Return a context with a function that adds a number of records to the bar.

    The bar goes with the context.  A file, a pipe or a notebook without ipywidgets shows nothing.
    """
    seen = console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
    columns = TextColumn("{task.completed:,.0f} records"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not seen) as progress:
        task = progress.add_task("", total=None)
        yield lambda records: progress.advance(task, records)
