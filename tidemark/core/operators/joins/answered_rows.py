"""Rows with an answer that late versions may still change, and which version was the answer."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from tidemark.core.operators.joins.version_runs import DELETED, RANK
from tidemark.core.operators.operator import Changes, Numbers
from tidemark.core.operators.replacing.newest_lines import UNTIL, NewestLines
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.time.segment import (
    CHANGE_REVISION,
    EVENT_TIME,
    NEVER_MS,
    OFFSET,
    SOURCE,
    SUB_ROW,
)

ANSWERED = "answered"
"""Frame of changes: rows with their revision and what the answer was; changelogs store the name."""

_VERSION = {name: f"@version.{name.removeprefix('@')}" for name in RANK}


def answers_of(found: pl.DataFrame) -> pl.DataFrame:
    """Return answers with all columns null where the answer is a tombstone."""
    if not found[DELETED].any():
        return found.drop(DELETED)
    kept = pl.col(DELETED).not_()
    return found.select(pl.when(kept).then(pl.exclude(DELETED)))


class AnsweredRows:
    """The newest answer of each row that is at most the allowed lateness behind the clock."""

    def __init__(
        self, key: tuple[str, ...], allowed_lateness_ms: int, store: BlockStore = IN_MEMORY
    ) -> None:
        """Start empty; ``store``: where lines lie."""
        self._lateness_ms = allowed_lateness_ms
        identity = [*key, SOURCE, OFFSET, SUB_ROW]
        self._lines = NewestLines(ANSWERED, identity, allowed_lateness_ms, store)

    def add(
        self,
        rows: pl.DataFrame,
        answers: pl.DataFrame,
        revision: Numbers,
        clock_ms: int = NEVER_MS,
    ) -> None:
        """Add rows with their answers, where late versions may change them after ``clock_ms``."""
        versions = answers.select(pl.col(name).alias(own) for name, own in _VERSION.items())
        until = (rows[EVENT_TIME] + 1).alias(UNTIL)
        lines = rows.hstack(versions.get_columns())
        lines = lines.hstack([pl.Series(CHANGE_REVISION, revision), until])
        if clock_ms != NEVER_MS:
            lines = lines.filter(pl.col(UNTIL) > clock_ms - self._lateness_ms)
        self._lines.add(lines)

    def of(self, keys: pl.DataFrame) -> pl.DataFrame | None:
        """Return the rows of keys with what ``add`` added; None if there is no row at all."""
        return self._lines.of(keys)

    def changed(self, rows: pl.DataFrame, answers: pl.DataFrame) -> pl.Series:
        """Return whether the answers of rows that ``of`` returned are other versions."""
        same = np.ones(rows.height, np.bool_)
        for name, own in _VERSION.items():
            same &= answers[name].eq_missing(rows[own]).to_numpy()
        return pl.Series(~same)

    def revision(self, rows: pl.DataFrame) -> Numbers:
        """Return the revisions of rows that ``of`` returned."""
        revision: Numbers = rows[CHANGE_REVISION].to_numpy()
        return revision

    def changes(self) -> Changes:
        """Return, once, the rows that were answered since the last call."""
        return self._lines.changes()

    def snapshot(self) -> Iterator[Changes]:
        """Return all rows, in pieces."""
        return self._lines.snapshot()

    def size_bytes(self) -> int:
        """Return the approximate size of a snapshot, bytes."""
        return self._lines.size_bytes()

    def apply(self, changes: Changes) -> None:
        """Add the rows of a changelog."""
        self._lines.apply(changes)

    def purge(self, clock_ms: int) -> None:
        """Drop the rows whose answers stand."""
        self._lines.purge(clock_ms)

    def validate(self) -> None:
        """Raise AssertionError where an invariant is broken."""
        self._lines.validate()
