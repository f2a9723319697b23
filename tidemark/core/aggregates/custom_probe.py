"""Tries of users' aggregates on probe rows, when a pipeline is built.

See docs/semantics.md, "Custom aggregates".  The probe rows have nulls, extremes, repeated values
and texts of many forms.  A row on which a function fails is no mistake: it becomes a dead letter at
run time.  These are mistakes:

* the function fails on every probe row;
* the result, or whether there is one, depends on the order of rows, or on how they are grouped.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import polars as pl

from tidemark.core.aggregates.user_call import Failure
from tidemark.core.rows.probe import probe_frame
from tidemark.errors import PipelineError

_CHUNK = 6
"""Number of probe rows that are folded together."""

_HELP = "correct it, or return None for what it does not know"

Columns = Mapping[str, pl.DataType]
Row = Mapping[str, Any]


class FoldedAggregate(Protocol):
    """A user's aggregate of rows and states.  A state is JSON text."""

    def folded(self, rows: Sequence[dict[str, Any]], states: Sequence[str], /) -> str | Failure:
        """Return one state of rows and states, or what the aggregate raised."""

    def result(self, state: str | Failure, /) -> Any | Failure:
        """Return the result of a state, or what the aggregate raised."""

    def conformed(self, value: Any | Failure, /) -> Any | Failure:
        """Return a value if it is of the declared type, else why it is not."""


class FrameAggregate(Protocol):
    """A user's function of a frame."""

    def called(self, rows: pl.DataFrame, /) -> Any | Failure:
        """Return what the function returns for a frame, or what it raised."""

    def conformed(self, value: Any | Failure, /) -> Any | Failure:
        """Return a value if it is of the declared type, else why it is not."""


def require_orderless(aggregate: FoldedAggregate, name: str, columns: Columns) -> None:
    """Try an aggregate on probe rows, in several orders and groups.

    Raises:
        PipelineError: it takes no row, or the order or grouping of rows matters.
    """
    for nulls in (False, True):
        rows = _taken(aggregate, name, probe_frame(columns, nulls=nulls).rows(named=True))
        for start in range(0, len(rows), _CHUNK):
            _require_one_result(aggregate, name, rows[start : start + _CHUNK])


def _taken(aggregate: FoldedAggregate, name: str, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that the aggregate takes alone; raise if it takes none."""
    results = [_result(aggregate, aggregate.folded([dict(row)], ())) for row in rows]
    taken = [row for row, made in zip(rows, results, strict=True) if not isinstance(made, Failure)]
    if not taken:
        raise _fails_always(f"{name}={aggregate}", results)
    return taken


def _result(aggregate: FoldedAggregate, state: str | Failure) -> Any | Failure:
    return aggregate.conformed(aggregate.result(state))


def _require_one_result(aggregate: FoldedAggregate, name: str, rows: list[Row]) -> None:
    results = [_result(aggregate, state) for state in _all_orders(aggregate, rows)]
    failures = [made for made in results if isinstance(made, Failure)]
    if 0 < len(failures) < len(results):
        raise PipelineError(
            f"{name}={aggregate}: {failures[0].reason}: these rows fail in some orders or groups "
            f"only: {rows!r:.200}; whether add raises must depend on the row alone"
        )
    if not failures and len(set(map(repr, results))) > 1:
        raise PipelineError(
            f"{name}={aggregate}: the result depends on the order of rows or on how they are "
            f"grouped: {results[0]!r:.60} or {results[-1]!r:.60}; make add and merge exact, or use "
            "apply_frame(), which sees the rows in order"
        )


def _all_orders(aggregate: FoldedAggregate, rows: list[Row]) -> Iterator[str | Failure]:
    """Yield states of the same rows: in order, reversed, as two halves, and one by one."""

    def folded(some: Sequence[Row]) -> str | Failure:
        return aggregate.folded([dict(row) for row in some], ())

    def merged(parts: Sequence[str | Failure]) -> str | Failure:
        states = [part for part in parts if not isinstance(part, Failure)]
        failed = [part for part in parts if isinstance(part, Failure)]
        return failed[0] if failed else aggregate.folded([], states)

    half = len(rows) // 2
    alone = [folded([row]) for row in rows]
    halves = [folded(rows[:half]), folded(rows[half:])]
    yield folded(rows)
    yield folded(rows[::-1])
    yield merged(halves)
    yield merged(halves[::-1])
    yield merged(alone)
    yield merged(alone[::-1])


def require_working(function: FrameAggregate, name: str, columns: Columns) -> None:
    """Try a function of a frame on probe rows: all together, some, one by one, and none.

    Raises:
        PipelineError: it fails on all of these frames.
    """
    results = []
    for frame in _frames(columns):
        results.append(function.conformed(function.called(frame)))
        if not isinstance(results[-1], Failure):
            return
    raise _fails_always(f"{name}={function}", results)


def _frames(columns: Columns) -> Iterator[pl.DataFrame]:
    for nulls in (False, True):
        rows = probe_frame(columns, nulls=nulls)
        yield rows
        yield from (rows[start : start + _CHUNK] for start in range(0, rows.height, _CHUNK))
        yield from (rows[at : at + 1] for at in range(rows.height))
        yield rows.clear()


def _fails_always(what: str, results: Sequence[Any | Failure]) -> PipelineError:
    reason = next((made.reason for made in results if isinstance(made, Failure)), "")
    return PipelineError(f"{what}: {reason}: it fails on all rows that it was tried on; {_HELP}")
