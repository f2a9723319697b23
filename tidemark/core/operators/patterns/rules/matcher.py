"""A rule at work on the rows of a log partition: its pattern, and its partial matches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Numbers
from tidemark.core.operators.patterns.automaton import Automaton
from tidemark.core.operators.patterns.engines import Engines
from tidemark.core.operators.patterns.findings import REFUSED
from tidemark.core.operators.patterns.in_time import TimedFrame, TimedFrames, refused_frame
from tidemark.core.operators.patterns.operator import too_many
from tidemark.core.operators.patterns.partial import unpacked
from tidemark.core.operators.patterns.results import MatchResults
from tidemark.core.operators.patterns.state import OPEN, PARTIAL, Matching
from tidemark.core.operators.ports import LATE, ROWS
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Hashes


class FittingRows(NamedTuple):
    """The rows that fulfil a condition of a pattern, in order; ``bits``: of their conditions."""

    row: Numbers
    bits: Numbers

    @classmethod
    def joined(cls, parts: Sequence["FittingRows"]) -> "FittingRows":
        """Return the rows of all parts; a row of several parts has the bits of them all."""
        if len(parts) == 1:
            return parts[0]
        row, place = np.unique(np.concatenate([part.row for part in parts]), return_inverse=True)
        bits = np.zeros(row.size, np.int64)
        np.bitwise_or.at(bits, place, np.concatenate([part.bits for part in parts]))
        return cls(row, bits)

    def within(self, first: int, stop: int) -> "FittingRows":
        """Return those of the rows from ``first`` to ``stop`` - 1, counted from ``first`` on."""
        begin, end = np.searchsorted(self.row, (first, stop))
        return FittingRows(self.row[begin:end] - first, self.bits[begin:end])


NO_ROWS = FittingRows(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class Matcher:
    """What a rule does; ``kind``: of the findings that are results.

    ``engines``: find them; ``results``: shows them.
    """

    engines: Engines
    results: MatchResults
    kind: int

    @property
    def _automaton(self) -> Automaton:
        return self.engines.automaton

    @property
    def conditions(self) -> tuple[pl.Expr, ...]:
        """The conditions on columns of the pattern, in the order of bits."""
        return self._automaton.pattern.conditions

    def going_on(self, fitting: FittingRows, hashes: Hashes, matching: Matching) -> FittingRows:
        """Return the rows with which a match may begin, and those of keys with partial matches.

        ``hashes``: of the keys of all rows.
        """
        own = hashes[fitting.row]
        begins = fitting.bits & self._automaton.starting != 0
        if begins.all():
            return fitting
        known = np.concatenate([matching.partial.hashes(), own[begins]])
        kept = begins | np.isin(own, known)
        return FittingRows(fitting.row[kept], fitting.bits[kept])

    def found(
        self,
        rule: Any,
        rows: pl.DataFrame,
        fitting: FittingRows,
        until_ms: int,
        matching: Matching,
    ) -> TimedFrames:
        """Return what rows and the timers before ``until_ms`` decide, by port.

        ``rows``: of all keys, none taken before.  ``fitting``: those that fulfil a condition.
        """
        if not self._may_change(rows.height > 0, fitting, until_ms, matching):
            return {}
        own, bits = self._used(rows, fitting)
        found = self.engines.findings_until(until_ms, own, bits, matching)
        results, refused = found.of_kind(self.kind), found.of_kind(REFUSED)
        made: dict[str, TimedFrame] = {}
        if results.at_ms.size:
            shown = self.results.frame(results, matching.rows, rule)
            made[ROWS] = TimedFrame(shown, results.at_ms)
        if refused.at_ms.size:
            reason = too_many(self._automaton.max_partial)
            late = refused_frame(refused.first_refs, matching.rows, reason)
            made[LATE] = TimedFrame(late, refused.at_ms)
        return made

    def _may_change(
        self, has_rows: bool, fitting: FittingRows, until_ms: int, matching: Matching
    ) -> bool:
        """Whether rows or timers may change a match: one may begin, go on, or be over."""
        if (fitting.bits & self._automaton.starting).any():
            return True
        if not matching.open_windows():
            return False
        goes_on = has_rows if self._automaton.pattern.counts_every_row else fitting.row.size > 0
        return bool(goes_on) or matching.partial.is_due(until_ms)

    def _used(self, rows: pl.DataFrame, fitting: FittingRows) -> tuple[pl.DataFrame, Numbers]:
        """Return the rows that may change a match, with the bits of their conditions."""
        if not self._automaton.pattern.counts_every_row:
            return lines_at(rows, fitting.row), fitting.bits
        bits = np.zeros(rows.height, np.int64)
        bits[fitting.row] = fitting.bits
        return rows, bits

    def dropped(self, at_ms: int, reason: str, matching: Matching) -> TimedFrames:
        """Return the first rows of the partial matches that end with their rule, as late rows.

        Those of partial matches that were matches before are left out.
        """
        lists = [piece[OPEN][PARTIAL] for piece in matching.partial.snapshot()]
        partials = unpacked(pl.concat(lists)) if lists else []
        complete = self._automaton.complete
        firsts = {each.refs[0] for some in partials for each in some if not each.closed & complete}
        late = refused_frame(np.array(sorted(firsts), np.int64), matching.rows, reason)
        return {LATE: TimedFrame(late, np.full(late.height, at_ms))}
